-- Followers read the log in the order of transactions: an entry has the number of
-- the one that wrote it. Entries from before have none, and are read by their ids.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN xid bigint;
ALTER TABLE vault_logs ALTER COLUMN xid SET DEFAULT txid_current();
-- Without the id: the entries of one transaction then share one entry of the index.
CREATE INDEX vault_logs_xid ON vault_logs (tenant_id, xid) WHERE xid IS NOT NULL;
