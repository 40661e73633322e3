-- A claim was won. The unique index on task and slot is the last line of defence.
INSERT INTO anarchon_run (
    task_id, run_id, slot_ms, scheduled_at_ms, reason, status, instance_id, token, attempt, max_attempts, fence,
    lease_ends_at_ms, claimed_at_ms, started_at_ms, finished_at_ms, error, traceback, checkpoint, attempts
)
VALUES (
    :task_id, :run_id, :slot_ms, :scheduled_at_ms, :reason, :status, :instance_id, :token, :attempt, :max_attempts,
    :fence, :lease_ends_at_ms, :claimed_at_ms, :started_at_ms, :finished_at_ms, :error, :traceback, :checkpoint,
    :attempts
);
