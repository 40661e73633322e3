-- The oldest skips of a task that excused one instance; those beyond the bound go.
SELECT slot_ms, reason, instance_id
FROM anarchon_skip
WHERE task_id = :task_id AND reason NOT IN ('overlap', 'paused')
ORDER BY slot_ms, reason, instance_id
LIMIT :limit;
