-- What the embedding program calls a user that acted.
ALTER TABLE logs ADD COLUMN actor_name text COLLATE "C";
