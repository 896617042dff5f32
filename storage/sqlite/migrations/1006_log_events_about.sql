-- Events of the vault's tree by the tenant they are about, 16 zeros for the whole vault.
INSERT INTO vault_migrations (version, vault_id) SELECT 1006, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_log_events ADD COLUMN about BLOB NOT NULL DEFAULT x'00000000000000000000000000000000';
UPDATE vault_log_events SET about = unhex(CAST(body AS TEXT) ->> '$.tenant', '-') WHERE CAST(body AS TEXT) ->> '$.tenant' IS NOT NULL;
CREATE INDEX vault_log_events_about ON vault_log_events (tenant_id, about, n);
