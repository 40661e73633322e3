-- A lease was renewed. The decision was taken on this row, in this transaction.
UPDATE anarchon_run SET lease_ends_at_ms = :lease_ends_at_ms WHERE task_id = :task_id AND run_id = :run_id;
