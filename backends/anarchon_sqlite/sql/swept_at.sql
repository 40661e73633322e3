-- When the turn to sweep was last given. No row: never.
SELECT swept_at_ms FROM anarchon_sweep WHERE namespace = :namespace;
