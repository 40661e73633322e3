-- At most one per slot, reason and instance: the first one stays.
INSERT OR IGNORE INTO anarchon_skip (task_id, slot_ms, reason, instance_id, at_ms, until_ms, token)
VALUES (:task_id, :slot_ms, :reason, :instance_id, :at_ms, :until_ms, :token);
