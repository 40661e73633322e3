-- Tables of the first release. Instants are UTC epoch ms of the store's clock unless a comment says otherwise.
-- compatible-with: 1

-- One row per migration that was applied. A release that knows schema `compatible_with` or later can work here.
CREATE TABLE anarchon_schema (
    version INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    compatible_with INTEGER NOT NULL
);

-- An instance that is running, or was when it was last heard of.
CREATE TABLE anarchon_instance (
    namespace TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    host TEXT NOT NULL,
    pid INTEGER NOT NULL,
    version TEXT NOT NULL,
    python TEXT NOT NULL,
    tz_database TEXT NOT NULL,
    lease_ms INTEGER NOT NULL,
    seen_at_ms INTEGER NOT NULL,
    PRIMARY KEY (namespace, instance_id)
) WITHOUT ROWID;

-- Who swept last is of no interest, only when.
CREATE TABLE anarchon_sweep (
    namespace TEXT PRIMARY KEY,
    swept_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

-- A task with its trimming rules, its fence, and the slot at or below which every claim is lost.
-- finals, closings and excuses count its rows in the two tables below, so that trimming need not.
-- pauses is JSON, the spans in which it was paused, oldest first; paused is 1 while the last of them has no end.
CREATE TABLE anarchon_task (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    schedule TEXT NOT NULL,
    handler TEXT NOT NULL,
    jitter_ms INTEGER NOT NULL,
    max_late_ms INTEGER NOT NULL,
    timeout_ms INTEGER,
    overlap TEXT NOT NULL,
    max_attempts INTEGER NOT NULL,
    history_size INTEGER NOT NULL,
    history_ttl_ms INTEGER,
    late_claim_ms INTEGER NOT NULL,
    catch_up_ms INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    floor_ms INTEGER NOT NULL,
    finals INTEGER NOT NULL DEFAULT 0,
    closings INTEGER NOT NULL DEFAULT 0,
    excuses INTEGER NOT NULL DEFAULT 0,
    pauses TEXT NOT NULL DEFAULT '[]',
    paused INTEGER NOT NULL DEFAULT 0,
    UNIQUE (namespace, name)
);

-- Since when each schedule of a task has been known, also those that it had before.
CREATE TABLE anarchon_schedule (
    task_id INTEGER NOT NULL,
    schedule TEXT NOT NULL,
    known_since_ms INTEGER NOT NULL,
    PRIMARY KEY (task_id, schedule)
) WITHOUT ROWID;

-- A run. started_at_ms and finished_at_ms are by its runner's clock. attempts is JSON, oldest first.
CREATE TABLE anarchon_run (
    id INTEGER PRIMARY KEY,
    task_id INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    slot_ms INTEGER,
    scheduled_at_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    status TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    token TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    fence INTEGER NOT NULL,
    lease_ends_at_ms INTEGER,
    claimed_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    finished_at_ms INTEGER,
    error TEXT,
    traceback TEXT,
    checkpoint TEXT,
    attempts TEXT NOT NULL,
    UNIQUE (task_id, run_id)
);

-- The promise that a slot has at most one run.
CREATE UNIQUE INDEX anarchon_run_slot ON anarchon_run (task_id, slot_ms) WHERE slot_ms IS NOT NULL;

CREATE INDEX anarchon_run_history ON anarchon_run (task_id, scheduled_at_ms, run_id);

-- Small, however long the history is: the runs that are not final.
CREATE INDEX anarchon_run_in_progress ON anarchon_run (task_id) WHERE status IN ('running', 'handed-over');
CREATE INDEX anarchon_run_lease ON anarchon_run (lease_ends_at_ms) WHERE status IN ('running', 'handed-over');

-- A slot that did not run: closed for everybody by the claim that holds `token`, or excused for one instance.
CREATE TABLE anarchon_skip (
    task_id INTEGER NOT NULL,
    slot_ms INTEGER NOT NULL,
    reason TEXT NOT NULL,
    instance_id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    until_ms INTEGER,
    token TEXT NOT NULL,
    detail TEXT NOT NULL,
    met_run_id TEXT,
    took_up INTEGER NOT NULL,
    PRIMARY KEY (task_id, slot_ms, reason, instance_id)
) WITHOUT ROWID;
