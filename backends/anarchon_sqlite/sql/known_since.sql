-- Since when the task has been known with this schedule.
SELECT known_since_ms FROM anarchon_schedule WHERE task_id = :task_id AND schedule = :schedule;
