-- Followers read the log in the order of transactions. An entry has the number of
-- the transaction that wrote it. Older entries have no number, and followers read
-- them by id.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN xid bigint;
ALTER TABLE vault_logs ALTER COLUMN xid SET DEFAULT txid_current();
-- The index leaves out the id, so that the entries of a transaction share one
-- index entry.
CREATE INDEX vault_logs_xid ON vault_logs (tenant_id, xid) WHERE xid IS NOT NULL;
