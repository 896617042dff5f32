-- The Merkle trees over the log. The vault's own tree is under the tenant of 16 zeros.
INSERT INTO vault_migrations (version, vault_id) SELECT 1004, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN origin TEXT;
ALTER TABLE vault_logs ADD COLUMN mac BLOB; -- 16 bytes, NULL in entries of earlier versions and in erased ones

CREATE TABLE vault_log_trees (
	tenant_id BLOB    NOT NULL PRIMARY KEY,
	size      INTEGER NOT NULL,
	root      BLOB    NOT NULL,
	state     BLOB    NOT NULL
) STRICT, WITHOUT ROWID;

-- A batch of leaves, which lies between two multiples of 256.
CREATE TABLE vault_log_leaves (
	tenant_id BLOB    NOT NULL,
	first     INTEGER NOT NULL,
	kind      INTEGER NOT NULL,
	ids       BLOB    NOT NULL, -- of entries, 16 bytes each
	seqs      BLOB    NOT NULL, -- of entries, 8 bytes each
	hashes    BLOB    NOT NULL, -- commitments, 32 bytes each
	PRIMARY KEY (tenant_id, first)
) STRICT, WITHOUT ROWID;

-- Roots of complete subtrees.
CREATE TABLE vault_log_nodes (
	tenant_id BLOB    NOT NULL,
	level     INTEGER NOT NULL,
	n         INTEGER NOT NULL,
	hash      BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, level, n)
) STRICT, WITHOUT ROWID;

-- Contents of the leaves of the vault's tree.
CREATE TABLE vault_log_events (
	tenant_id BLOB    NOT NULL,
	n         INTEGER NOT NULL,
	body      BLOB    NOT NULL,
	PRIMARY KEY (tenant_id, n)
) STRICT, WITHOUT ROWID;

-- Signed notes over the vault's tree.
CREATE TABLE vault_log_checkpoints (
	tenant_id BLOB    NOT NULL,
	size      INTEGER NOT NULL,
	note      BLOB    NOT NULL,
	at        INTEGER NOT NULL,
	PRIMARY KEY (tenant_id, size)
) STRICT, WITHOUT ROWID;
