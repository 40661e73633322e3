-- The turn to sweep is given now.
INSERT OR REPLACE INTO anarchon_sweep (namespace, swept_at_ms) VALUES (:namespace, :now_ms);
