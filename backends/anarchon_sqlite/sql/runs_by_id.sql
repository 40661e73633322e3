-- The runs of these ids; keys is a JSON array of [task_id, run_id]. No row: never stored, or trimmed.
SELECT r.task_id, r.run_id, r.slot_ms, r.scheduled_at_ms, r.reason, r.status, r.instance_id, r.token, r.attempt,
       r.max_attempts, r.fence, r.lease_ends_at_ms, r.claimed_at_ms, r.started_at_ms, r.finished_at_ms, r.error,
       r.traceback, r.checkpoint, r.attempts
FROM json_each(:keys) AS k
CROSS JOIN anarchon_run AS r
    ON r.task_id = json_extract(k.value, '$[0]') AND r.run_id = json_extract(k.value, '$[1]');
