-- Every key starts with the tenant. Ids and hashes are bytea, so that they need
-- no conversion. Times are microseconds since 1970. NULL means absent.

-- The migrations that have run. All rows have the same vault_id. It identifies
-- the database, and shows that this table belongs to a vault.
CREATE TABLE vault_migrations (
	version  bigint NOT NULL PRIMARY KEY,
	vault_id bytea  NOT NULL
);
INSERT INTO vault_migrations (version, vault_id)
VALUES (1001, substring(sha256(convert_to(random()::text || clock_timestamp()::text || txid_current()::text, 'UTF8')) FOR 16));

CREATE TABLE vault_tokens (
	tenant_id      bytea  NOT NULL,
	ord            bytea  NOT NULL,
	id             text   COLLATE "C" NOT NULL,
	type           text   COLLATE "C" NOT NULL,
	set_id         bytea  NOT NULL,
	containers     text   COLLATE "C" NOT NULL,
	fingerprint    bytea  NOT NULL,
	expression     bytea  NOT NULL,
	dedup          bytea,
	hashes         bytea  NOT NULL,
	key_version    bigint NOT NULL,
	body           bytea  NOT NULL,
	cvc            bytea,
	cvc_expires_at bigint,
	expires_at     bigint,
	created_by     bytea,
	created_at     bigint NOT NULL,
	modified_by    bytea,
	modified_at    bigint,
	rev            bigint NOT NULL,
	PRIMARY KEY (tenant_id, ord)
);
CREATE UNIQUE INDEX vault_tokens_id ON vault_tokens (tenant_id, id);
CREATE UNIQUE INDEX vault_tokens_dedup ON vault_tokens (tenant_id, dedup) WHERE dedup IS NOT NULL;
CREATE INDEX vault_tokens_fingerprint ON vault_tokens (tenant_id, fingerprint, ord);
CREATE INDEX vault_tokens_set ON vault_tokens (tenant_id, set_id, type, ord);
CREATE INDEX vault_tokens_expiry ON vault_tokens (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX vault_tokens_tenant_expiry ON vault_tokens (tenant_id, expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX vault_tokens_cvc_expiry ON vault_tokens (cvc_expires_at) WHERE cvc_expires_at IS NOT NULL;
-- The index for searches by modified_at. Tokens that were never modified are not in
-- it, so that it costs a create nothing.
CREATE INDEX vault_tokens_modified ON vault_tokens (tenant_id, modified_at, ord) WHERE modified_at IS NOT NULL;

CREATE TABLE vault_token_hashes (
	tenant_id bytea NOT NULL,
	hash      bytea NOT NULL,
	ord       bytea NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
);

-- A set has one row, with shard 0. A transaction of the application that needs a
-- new set adds a row with a separate shard, so that nobody waits for it. A sweep
-- merges these rows.
CREATE TABLE vault_container_sets (
	tenant_id  bytea  NOT NULL,
	set_id     bytea  NOT NULL,
	containers text   COLLATE "C" NOT NULL,
	shard      bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (tenant_id, set_id, shard)
);
CREATE INDEX vault_container_sets_apart ON vault_container_sets (tenant_id) WHERE shard < 0;

-- A count is the sum over its shards. There are several, so that concurrent
-- writers do not wait for one row. Half-filled pages keep updates inside the page.
-- A transaction of the application adds rows with separate negative shards, and a
-- sweep merges them.
CREATE TABLE vault_token_counts (
	tenant_id bytea  NOT NULL,
	set_id    bytea  NOT NULL,
	type      text   COLLATE "C" NOT NULL,
	shard     bigint NOT NULL,
	n         bigint NOT NULL,
	PRIMARY KEY (tenant_id, set_id, type, shard)
) WITH (fillfactor = 50);
CREATE INDEX vault_token_counts_apart ON vault_token_counts (tenant_id) WHERE shard < 0;

-- Followers read the log in the order of transactions. An entry has the number of
-- the transaction that wrote it.
CREATE TABLE vault_logs (
	tenant_id   bytea  NOT NULL,
	id          bytea  NOT NULL,
	created_at  bigint NOT NULL,
	actor_id    bytea,
	actor_type  text   COLLATE "C" NOT NULL,
	entity_type text   COLLATE "C" NOT NULL,
	entity_id   text   COLLATE "C" NOT NULL,
	operation   text   COLLATE "C" NOT NULL,
	message     text   COLLATE "C" NOT NULL,
	actor_name  text   COLLATE "C", -- the embedding program's name for the acting user
	xid         bigint NOT NULL DEFAULT txid_current(),
	origin      text   COLLATE "C",
	mac         bytea, -- 16 bytes, NULL in erased entries
	PRIMARY KEY (tenant_id, id)
);
CREATE INDEX vault_logs_entity ON vault_logs (tenant_id, entity_id, id);
-- The index leaves out the id, so that the entries of a transaction share one
-- index entry. Its condition always holds. It keeps the planner from reading a whole
-- tenant in this index for a query without xid, if ANALYZE has not seen the tenant.
CREATE INDEX vault_logs_xid ON vault_logs (tenant_id, xid) WHERE xid IS NOT NULL;
-- Indexes for lists of rare log entries. Most entries record that a token was
-- created, read or used. Neither index has them, so they cost nothing more.
CREATE INDEX vault_logs_operation ON vault_logs (tenant_id, operation, id) WHERE operation NOT IN ('create', 'read', 'use');
CREATE INDEX vault_logs_type ON vault_logs (tenant_id, entity_type, id)
	WHERE entity_type IN ('application', 'proxy', 'reactor', 'session', 'tenant');

-- The number of log entries by type and day of created_at. A write does not update
-- these counts. A list counts the entries of transactions after the tenant's mark
-- itself. Later these entries are added here, many at a time.
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

-- The Merkle trees over the log. The vault's own tree is under the tenant of 16 zeros.
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
-- Hashes cannot be compressed, and the attempt took three quarters of the time of an
-- insert.
ALTER TABLE vault_log_leaves ALTER ids SET STORAGE EXTERNAL, ALTER seqs SET STORAGE EXTERNAL, ALTER hashes SET STORAGE EXTERNAL;

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
	about     bytea  NOT NULL, -- the tenant of the event, 16 zeros for the whole vault
	body      bytea  NOT NULL,
	PRIMARY KEY (tenant_id, n)
);
CREATE INDEX vault_log_events_about ON vault_log_events (tenant_id, about, n);

-- Signed notes over the vault's tree.
CREATE TABLE vault_log_checkpoints (
	tenant_id bytea  NOT NULL,
	size      bigint NOT NULL,
	note      bytea  NOT NULL,
	at        bigint NOT NULL,
	PRIMARY KEY (tenant_id, size)
);

CREATE TABLE vault_records (
	tenant_id   bytea  NOT NULL,
	kind        text   COLLATE "C" NOT NULL,
	id          bytea  NOT NULL,
	name        text   COLLATE "C" NOT NULL,
	name_fold   text   COLLATE "C" NOT NULL,
	key_hash    bytea,
	alt_hash    bytea,
	expires_at  bigint,
	key_version bigint NOT NULL,
	body        bytea  NOT NULL,
	created_at  bigint NOT NULL,
	rev         bigint NOT NULL,
	PRIMARY KEY (tenant_id, kind, id)
);
-- This index serves lists of one kind over all tenants: the list of tenants, and
-- at each sweep the list of tenants whose deletion is not finished.
CREATE INDEX vault_records_kind ON vault_records (kind, id, tenant_id);
CREATE INDEX vault_records_expiry ON vault_records (expires_at) WHERE expires_at IS NOT NULL;

-- This is the only table whose key does not start with the tenant, because it
-- maps a key to its tenant.
CREATE TABLE vault_lookups (
	hash      bytea NOT NULL PRIMARY KEY,
	tenant_id bytea NOT NULL,
	kind      text  COLLATE "C" NOT NULL,
	id        bytea NOT NULL
);
CREATE INDEX vault_lookups_tenant ON vault_lookups (tenant_id);

CREATE TABLE vault_claims (
	tenant_id   bytea  NOT NULL,
	key         bytea  NOT NULL,
	owner       bytea  NOT NULL,
	lease_until bigint,
	expires_at  bigint,
	key_version bigint NOT NULL,
	answer      bytea,
	PRIMARY KEY (tenant_id, key)
);
CREATE INDEX vault_claims_expiry ON vault_claims (expires_at) WHERE expires_at IS NOT NULL;

-- Leasing a job updates its row. Half-filled pages keep the update inside the page.
CREATE TABLE vault_jobs (
	tenant_id   bytea   NOT NULL,
	id          bytea   NOT NULL,
	kind        text    COLLATE "C" NOT NULL,
	run_at      bigint  NOT NULL,
	attempts    bigint  NOT NULL,
	dead        boolean NOT NULL,
	owner       bytea,
	lease_until bigint,
	key_version bigint  NOT NULL,
	payload     bytea   NOT NULL,
	PRIMARY KEY (tenant_id, id)
) WITH (fillfactor = 50);
CREATE INDEX vault_jobs_due ON vault_jobs (tenant_id, run_at, id) WHERE NOT dead;
-- A sweep uses this index to find dead jobs.
CREATE INDEX vault_jobs_dead ON vault_jobs (run_at) WHERE dead;
