-- The Merkle trees over the log. The vault's own tree is under the tenant of 16 zeros.
INSERT INTO vault_migrations (version, vault_id) SELECT 1005, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN origin text COLLATE "C";
ALTER TABLE vault_logs ADD COLUMN mac bytea; -- 16 bytes, NULL in entries of earlier versions and in erased ones

CREATE TABLE vault_log_trees (
	tenant_id bytea  NOT NULL PRIMARY KEY,
	size      bigint NOT NULL,
	root      bytea  NOT NULL,
	state     bytea  NOT NULL
) WITH (fillfactor = 50);

-- A batch of leaves, which lies between two multiples of 256.
CREATE TABLE vault_log_leaves (
	tenant_id bytea  NOT NULL,
	first     bigint NOT NULL,
	kind      bigint NOT NULL,
	ids       bytea  NOT NULL, -- of entries, 16 bytes each
	seqs      bytea  NOT NULL, -- of entries, 8 bytes each
	hashes    bytea  NOT NULL, -- commitments, 32 bytes each
	PRIMARY KEY (tenant_id, first)
);

-- Roots of complete subtrees.
CREATE TABLE vault_log_nodes (
	tenant_id bytea  NOT NULL,
	level     bigint NOT NULL,
	n         bigint NOT NULL,
	hash      bytea  NOT NULL,
	PRIMARY KEY (tenant_id, level, n)
);

-- Contents of the leaves of the vault's tree.
CREATE TABLE vault_log_events (
	tenant_id bytea  NOT NULL,
	n         bigint NOT NULL,
	body      bytea  NOT NULL,
	PRIMARY KEY (tenant_id, n)
);

-- Signed notes over the vault's tree.
CREATE TABLE vault_log_checkpoints (
	tenant_id bytea  NOT NULL,
	size      bigint NOT NULL,
	note      bytea  NOT NULL,
	at        bigint NOT NULL,
	PRIMARY KEY (tenant_id, size)
);
