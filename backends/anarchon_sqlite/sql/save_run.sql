-- What a decision has changed in a run. The decision was taken on this row, in this transaction.
UPDATE anarchon_run
SET status = :status, instance_id = :instance_id, token = :token, attempt = :attempt, fence = :fence,
    lease_ends_at_ms = :lease_ends_at_ms, claimed_at_ms = :claimed_at_ms, started_at_ms = :started_at_ms,
    finished_at_ms = :finished_at_ms, error = :error, traceback = :traceback, checkpoint = :checkpoint,
    attempts = :attempts
WHERE task_id = :task_id AND run_id = :run_id;
