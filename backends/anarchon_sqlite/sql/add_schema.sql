-- A migration was applied.
INSERT INTO anarchon_schema (version, name, compatible_with) VALUES (:version, :name, :compatible_with);
