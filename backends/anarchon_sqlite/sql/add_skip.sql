-- At most one per slot, reason and instance: the first one stays.
INSERT OR IGNORE INTO anarchon_skip (task_id, slot_ms, reason, instance_id, at_ms, until_ms, token, detail, met_run_id, took_up)
VALUES (:task_id, :slot_ms, :reason, :instance_id, :at_ms, :until_ms, :token, :detail, :met_run_id,
        :took_up);
