-- The skips that closed these slots; keys is a JSON array of [task_id, slot_ms]. No row for a slot: it is not closed.
SELECT s.task_id, s.slot_ms, s.reason, s.instance_id, s.at_ms, s.until_ms, s.token, s.detail, s.met_run_id,
       s.took_up
FROM json_each(:keys) AS k
CROSS JOIN anarchon_skip AS s
    ON s.task_id = json_extract(k.value, '$[0]') AND s.slot_ms = json_extract(k.value, '$[1]')
WHERE s.reason IN ('overlap', 'paused');
