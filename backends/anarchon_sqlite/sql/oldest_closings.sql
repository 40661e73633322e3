-- The oldest skips of a task that closed their slot, for trimming to choose from.
SELECT slot_ms, reason, instance_id, at_ms
FROM anarchon_skip
WHERE task_id = :task_id AND reason IN ('overlap', 'paused')
ORDER BY slot_ms, reason, instance_id
LIMIT :limit;
