-- The tables and columns of a vault from before table names had a prefix.
CREATE TABLE schema_version (version bigint PRIMARY KEY);
CREATE TABLE tokens (tenant_id text, ord text, id text, type text, set_id text, containers text, fingerprint text, expression text, dedup text, hashes text, key_version text, body text, cvc text, cvc_expires_at text, expires_at text, created_by text, created_at text, modified_by text, modified_at text, rev text);
CREATE TABLE token_hashes (tenant_id text, hash text, ord text);
CREATE TABLE container_sets (tenant_id text, set_id text, containers text);
CREATE TABLE token_counts (tenant_id text, set_id text, type text, shard text, n text);
CREATE TABLE logs (tenant_id text, id text, created_at text, actor_id text, actor_type text, entity_type text, entity_id text, operation text, message text);
CREATE TABLE records (tenant_id text, kind text, id text, name text, name_fold text, key_hash text, alt_hash text, expires_at text, key_version text, body text, created_at text, rev text);
CREATE TABLE lookups (hash text, tenant_id text, kind text, id text);
CREATE TABLE claims (tenant_id text, key text, owner text, lease_until text, expires_at text, key_version text, answer text);
CREATE TABLE jobs (tenant_id text, id text, kind text, run_at text, attempts text, dead text, owner text, lease_until text, key_version text, payload text);
INSERT INTO schema_version (version) VALUES (1001), (1002), (1003);
