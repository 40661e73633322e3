-- The newest skips of a task, closing ones included. No row: it has none, or is not known.
SELECT s.task_id, s.slot_ms, s.reason, s.instance_id, s.at_ms, s.until_ms, s.token, s.detail, s.met_run_id,
       s.took_up
FROM anarchon_task AS t
CROSS JOIN anarchon_skip AS s ON s.task_id = t.id
WHERE t.namespace = :namespace AND t.name = :task
ORDER BY s.slot_ms DESC, s.reason, s.instance_id
LIMIT :limit;
