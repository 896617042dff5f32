-- Every key starts with the tenant. Ids and hashes are bytea, so that they
-- travel as they are; times are microseconds since 1970; NULL means absent.

-- The migrations that have run. All rows have the same vault_id, by which one
-- database is told from another, and by which this table is known as the vault's.
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

CREATE TABLE vault_token_hashes (
	tenant_id bytea NOT NULL,
	hash      bytea NOT NULL,
	ord       bytea NOT NULL,
	PRIMARY KEY (tenant_id, hash, ord)
);

-- A set has one row, under shard 0. A transaction of the application that needs
-- a new one adds a row under a shard of its own, so that nobody waits for it; a
-- sweep folds those in.
CREATE TABLE vault_container_sets (
	tenant_id  bytea  NOT NULL,
	set_id     bytea  NOT NULL,
	containers text   COLLATE "C" NOT NULL,
	shard      bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (tenant_id, set_id, shard)
);
CREATE INDEX vault_container_sets_apart ON vault_container_sets (tenant_id) WHERE shard < 0;

-- A count is the sum over its shards; several, so that concurrent writers do
-- not wait for one row. Half-filled pages keep its updates inside the page. A
-- transaction of the application adds rows under negative shards of its own, which
-- a sweep folds in.
CREATE TABLE vault_token_counts (
	tenant_id bytea  NOT NULL,
	set_id    bytea  NOT NULL,
	type      text   COLLATE "C" NOT NULL,
	shard     bigint NOT NULL,
	n         bigint NOT NULL,
	PRIMARY KEY (tenant_id, set_id, type, shard)
) WITH (fillfactor = 50);
CREATE INDEX vault_token_counts_apart ON vault_token_counts (tenant_id) WHERE shard < 0;

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
	actor_name  text   COLLATE "C", -- what the embedding program calls a user that acted
	PRIMARY KEY (tenant_id, id)
);
CREATE INDEX vault_logs_entity ON vault_logs (tenant_id, entity_id, id);

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
-- What lists of one kind over all tenants are read from: of tenants, and, at
-- each sweep, of those whose deletion is not done.
CREATE INDEX vault_records_kind ON vault_records (kind, id, tenant_id);
CREATE INDEX vault_records_expiry ON vault_records (expires_at) WHERE expires_at IS NOT NULL;

-- The one table whose key is not under a tenant: it is asked which tenant a
-- key belongs to.
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

-- Leasing a job updates it, and half-filled pages keep that inside the page.
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
-- What a sweep finds dead jobs by.
CREATE INDEX vault_jobs_dead ON vault_jobs (run_at) WHERE dead;
-- Followers read the log in the order of transactions: an entry has the number of
-- the one that wrote it. Entries from before have none, and are read by their ids.
INSERT INTO vault_migrations (version, vault_id) SELECT 1002, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_logs ADD COLUMN xid bigint;
ALTER TABLE vault_logs ALTER COLUMN xid SET DEFAULT txid_current();
-- Without the id: the entries of one transaction then share one entry of the index.
CREATE INDEX vault_logs_xid ON vault_logs (tenant_id, xid) WHERE xid IS NOT NULL;
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
-- Lists of the log by what happens seldom. Most entries say that a token was
-- created, read or used: these are in neither index, so they cost nothing more.
INSERT INTO vault_migrations (version, vault_id) SELECT 1004, vault_id FROM vault_migrations WHERE version = 1001;

CREATE INDEX vault_logs_operation ON vault_logs (tenant_id, operation, id) WHERE operation NOT IN ('create', 'read', 'use');
CREATE INDEX vault_logs_type ON vault_logs (tenant_id, entity_type, id)
	WHERE entity_type IN ('application', 'proxy', 'reactor', 'session', 'tenant');

-- Rows of this version: a token with two hashes, what counts it, its log entry, a
-- record with its key, a claim and a job.
INSERT INTO vault_tokens (tenant_id, ord, id, type, set_id, containers, fingerprint, expression, hashes, key_version, body, created_at, rev)
VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 'kept', 'token', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '\xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', 1, '\xb0b1', 1700000000000000, 1);
INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES ('\x01000000000000000000000000000000', '\xa1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1', '\x018bcfe5680070008000000000000001'), ('\x01000000000000000000000000000000', '\xa2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2', '\x018bcfe5680070008000000000000001');
INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES ('\x01000000000000000000000000000000', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 'token', 0, 1);
INSERT INTO vault_container_sets (tenant_id, set_id, containers) VALUES ('\x01000000000000000000000000000000', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', '/a/');
INSERT INTO vault_logs (tenant_id, id, created_at, actor_type, entity_type, entity_id, operation, message)
VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 1700000000000000, 'user', 'token', 'kept', 'create', 'Token created');
INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_hash, key_version, body, created_at, rev)
VALUES ('\x01000000000000000000000000000000', 'application', '\x018bcfe5680070008000000000000001', 'Kept', 'kept', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', 1, '\xb0b1', 1700000000000000, 1);
INSERT INTO vault_lookups (hash, tenant_id, kind, id) VALUES ('\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x01000000000000000000000000000000', 'application', '\x018bcfe5680070008000000000000001');
INSERT INTO vault_claims (tenant_id, key, owner, expires_at, key_version, answer) VALUES ('\x01000000000000000000000000000000', '\x6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b6b', '\x5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e5e', 1900000000000000, 1, '\xb0b1');
INSERT INTO vault_jobs (tenant_id, id, kind, run_at, attempts, dead, key_version, payload) VALUES ('\x01000000000000000000000000000000', '\x018bcfe5680070008000000000000001', 'react', 1700000000000000, 0, false, 1, '\xb0b1');
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
-- Events of the vault's tree by the tenant they are about, 16 zeros for the whole vault.
INSERT INTO vault_migrations (version, vault_id) SELECT 1006, vault_id FROM vault_migrations WHERE version = 1001;

ALTER TABLE vault_log_events ADD COLUMN about bytea NOT NULL DEFAULT '\x00000000000000000000000000000000'::bytea;
UPDATE vault_log_events SET about = decode(replace(convert_from(body, 'UTF8')::json ->> 'tenant', '-', ''), 'hex')
	WHERE convert_from(body, 'UTF8')::json ->> 'tenant' IS NOT NULL;
CREATE INDEX vault_log_events_about ON vault_log_events (tenant_id, about, n);
