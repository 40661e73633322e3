-- Every run of these tasks that is not final; task_ids is a JSON array.
SELECT r.task_id, r.run_id, r.slot_ms, r.scheduled_at_ms, r.reason, r.status, r.instance_id, r.token, r.attempt,
       r.max_attempts, r.fence, r.lease_ends_at_ms, r.claimed_at_ms, r.started_at_ms, r.finished_at_ms, r.error,
       r.traceback, r.checkpoint, r.attempts
FROM json_each(:task_ids) AS k
CROSS JOIN anarchon_run AS r ON r.task_id = k.value
WHERE r.status IN ('running', 'handed-over');
