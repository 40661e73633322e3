-- A skip was trimmed; where it had closed its slot, the floor of its task rises in the same transaction.
DELETE FROM anarchon_skip
WHERE task_id = :task_id AND slot_ms = :slot_ms AND reason = :reason AND instance_id = :instance_id;
