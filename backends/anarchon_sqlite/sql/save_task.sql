-- What the decisions of this transaction have changed in a task.
UPDATE anarchon_task
SET fence = :fence, floor_ms = :floor_ms, finals = :finals, closings = :closings, excuses = :excuses,
    pauses = :pauses, paused = :paused
WHERE id = :id;
