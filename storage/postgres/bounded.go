package postgres

import (
	"context"
	"database/sql"
	"errors"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// The reads for one tenant take a share of the connections if tables are
// distributed: see [servers].

// of runs a read for a tenant.
func (s *Store) of(ctx context.Context, tenant storage.ID, read func() error) error {
	if s.servers == nil {
		return read()
	}
	return s.servers.run(ctx, tenant, read)
}

// Tokens implements [storage.TokenReader].
func (s *Store) Tokens(ctx context.Context, tenant storage.ID, ids []string) (found []storage.Token, err error) {
	err = s.of(ctx, tenant, func() (err error) {
		found, err = s.reader.Tokens(ctx, tenant, ids)
		return err
	})
	return found, err
}

// Duplicate implements [storage.TokenReader].
func (s *Store) Duplicate(ctx context.Context, tenant storage.ID, d storage.Duplicate) (found *storage.Token, err error) {
	err = s.of(ctx, tenant, func() (err error) {
		found, err = s.reader.Duplicate(ctx, tenant, d)
		return err
	})
	return found, err
}

// ListTokens implements [storage.TokenReader].
func (s *Store) ListTokens(ctx context.Context, f storage.TokenFilter) (page []storage.Token, total int, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		page, total, err = s.reader.ListTokens(ctx, f)
		return err
	})
	return page, total, err
}

// ContainerSets implements [storage.TokenReader].
func (s *Store) ContainerSets(ctx context.Context, tenant storage.ID) (sets []storage.ContainerSet, err error) {
	err = s.of(ctx, tenant, func() (err error) {
		sets, err = s.reader.ContainerSets(ctx, tenant)
		return err
	})
	return sets, err
}

// ListLogs implements [storage.TokenReader].
func (s *Store) ListLogs(ctx context.Context, f storage.LogFilter) (page []storage.Log, total int, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		page, total, err = s.reader.ListLogs(ctx, f)
		return err
	})
	return page, total, err
}

// Records implements [storage.RecordReader].
func (s *Store) Records(ctx context.Context, tenant storage.ID, kind string, ids []storage.ID) (found []storage.Record, err error) {
	err = s.of(ctx, tenant, func() (err error) {
		found, err = s.reader.Records(ctx, tenant, kind, ids)
		return err
	})
	return found, err
}

// ListRecords implements [storage.RecordReader].
func (s *Store) ListRecords(ctx context.Context, f storage.RecordFilter) (page []storage.Record, total int, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		page, total, err = s.reader.ListRecords(ctx, f)
		return err
	})
	return page, total, err
}

// Lookup implements [storage.RecordReader].
func (s *Store) Lookup(ctx context.Context, key storage.Key) (found storage.Record, err error) {
	if s.servers == nil {
		return s.reader.Lookup(ctx, key)
	}
	tenant, err := s.owner(ctx, key)
	if err != nil {
		return storage.Record{}, err
	}
	err = s.of(ctx, tenant, func() (err error) {
		found, err = s.reader.Lookup(ctx, key)
		return err
	})
	return found, err
}

// owner returns the tenant of a key.
func (s *Store) owner(ctx context.Context, key storage.Key) (tenant storage.ID, err error) {
	if tenant, ok := s.servers.owners.get(key); ok {
		return tenant, nil
	}
	var id []byte
	err = sqlstore.Do(ctx, s.reader, func(conn *sql.Conn) error {
		return conn.QueryRowContext(ctx, s.schema.in("SELECT tenant_id FROM vault_lookups WHERE hash = $1"), key[:]).Scan(&id)
	})
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return tenant, storage.ErrNotFound
	case err != nil:
		return tenant, s.dialect.Error(err)
	}
	copy(tenant[:], id)
	s.servers.owners.put(key, tenant)
	return tenant, nil
}

// Count implements [storage.Counter].
func (s *Store) Count(ctx context.Context, f storage.CountFilter) (n storage.Counts, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		n, err = s.reader.Count(ctx, f)
		return err
	})
	return n, err
}

// Claim implements [storage.Queue].
func (s *Store) Claim(ctx context.Context, tenant storage.ID, key storage.Key) (found storage.Claim, err error) {
	err = s.of(ctx, tenant, func() (err error) {
		found, err = s.reader.Claim(ctx, tenant, key)
		return err
	})
	return found, err
}

// Jobs implements [storage.Queue].
func (s *Store) Jobs(ctx context.Context, f storage.JobFilter) (found []storage.Job, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		found, err = s.reader.Jobs(ctx, f)
		return err
	})
	return found, err
}

// SealedRows implements [storage.Queue].
func (s *Store) SealedRows(ctx context.Context, f storage.SealedFilter) (found []storage.Sealed, err error) {
	err = s.of(ctx, f.Tenant, func() (err error) {
		found, err = s.reader.SealedRows(ctx, f)
		return err
	})
	return found, err
}
