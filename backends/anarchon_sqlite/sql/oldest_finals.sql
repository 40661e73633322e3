-- The oldest runs of a task that are final, for trimming to choose from.
SELECT id, slot_ms, scheduled_at_ms, finished_at_ms
FROM anarchon_run
WHERE task_id = :task_id AND status IN ('succeeded', 'failed', 'interrupted')
ORDER BY scheduled_at_ms, run_id
LIMIT :limit;
