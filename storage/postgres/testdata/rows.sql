-- Rows that every version could write: a token with two hashes and its counts, its
-- log entry, a record with its key, a claim and a job.
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
