-- The newest runs of a task. No row: it has none, or is not known.
SELECT r.task_id, r.run_id, r.slot_ms, r.scheduled_at_ms, r.reason, r.status, r.instance_id, r.token, r.attempt,
       r.max_attempts, r.fence, r.lease_ends_at_ms, r.claimed_at_ms, r.started_at_ms, r.finished_at_ms, r.error,
       r.traceback, r.checkpoint, r.attempts
FROM anarchon_task AS t
CROSS JOIN anarchon_run AS r ON r.task_id = t.id
WHERE t.namespace = :namespace AND t.name = :task
ORDER BY r.scheduled_at_ms DESC, r.run_id DESC
LIMIT :limit;
