-- An instance has opened the store.
INSERT OR REPLACE INTO anarchon_instance (
    namespace, instance_id, host, pid, version, python, tz_database, lease_ms, seen_at_ms
)
VALUES (:namespace, :instance_id, :host, :pid, :version, :python, :tz_database, :lease_ms, :now_ms);
