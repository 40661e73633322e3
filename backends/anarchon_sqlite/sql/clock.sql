-- What time it is for this store, in UTC epoch ms: the host's wall clock, unless a test passes an instant.
-- Run inside the transaction, once the lock is had. unixepoch('now', 'subsec') would be NULL before SQLite 3.42.
SELECT coalesce(:now_ms, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER));
