-- The earliest end of a live lease. No row: nothing is running.
SELECT r.lease_ends_at_ms
FROM anarchon_run AS r
CROSS JOIN anarchon_task AS t ON t.id = r.task_id
WHERE r.status IN ('running', 'handed-over') AND r.lease_ends_at_ms > :now_ms AND t.namespace = :namespace
ORDER BY r.lease_ends_at_ms
LIMIT 1;
