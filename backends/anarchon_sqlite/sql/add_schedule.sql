-- Remember when a schedule was first seen; one that is known keeps its instant.
INSERT OR IGNORE INTO anarchon_schedule (task_id, schedule, known_since_ms) VALUES (:task_id, :schedule, :now_ms);
