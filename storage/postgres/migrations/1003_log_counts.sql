-- How many log entries there are, by type and day of created_at. A statement that
-- enters something does not add to it: the entries of transactions from the mark of
-- the tenant on are counted when they are listed, until they are added here, many
-- at a time. Entries without a number are all counted here.
INSERT INTO vault_migrations (version, vault_id) SELECT 1003, vault_id FROM vault_migrations WHERE version = 1001;

CREATE TABLE vault_log_counts (
	tenant_id   bytea  NOT NULL,
	entity_type text   COLLATE "C" NOT NULL,
	day         bigint NOT NULL, -- since 1970
	n           bigint NOT NULL,
	PRIMARY KEY (tenant_id, entity_type, day)
) WITH (fillfactor = 50);

CREATE TABLE vault_log_marks (
	tenant_id bytea  NOT NULL PRIMARY KEY,
	xid       bigint NOT NULL
) WITH (fillfactor = 50);

INSERT INTO vault_log_counts (tenant_id, entity_type, day, n)
SELECT tenant_id, entity_type, created_at / 86400000000 - CASE WHEN created_at % 86400000000 < 0 THEN 1 ELSE 0 END, count(*)
FROM vault_logs WHERE xid IS NULL GROUP BY 1, 2, 3;
