-- What lists of one kind over all tenants are read from: of tenants, and, at
-- each sweep, of those whose deletion is not done.
CREATE INDEX records_kind ON records (kind, id, tenant_id);
