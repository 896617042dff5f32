package postgres

import (
	"context"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

// A plan prepared for empty tables may find a token by reading all tokens of
// its tenant, because no index seems better than another. The server makes new
// plans after it has analyzed the tables, but it does so only after a minute or
// more. So a store analyzes them itself after its first rows, after ten times
// as many, and so on, unless the server's statistics are of at least as many rows.
const (
	analyzeFirst = 500
	analyzeLast  = 500_000
)

var analyzed = []string{"vault_tokens", "vault_token_hashes", "vault_logs", "vault_records", "vault_lookups", "vault_claims", "vault_jobs"}

// analyze analyzes the tables, unless their statistics are of at least this many
// rows.
func (s *Store) analyze(ctx context.Context, rows int64) error {
	return s.maintain(ctx, func(on execer) error {
		var known int64
		err := on.QueryRowContext(ctx, "SELECT coalesce(sum(greatest(reltuples, 0)), 0)::bigint FROM pg_catalog.pg_class WHERE relname = ANY (pg_catalog.string_to_array($1, ','))"+
			" AND relnamespace = (SELECT relnamespace FROM pg_catalog.pg_class WHERE oid = $2::regclass)",
			strings.Join(analyzed, ","), s.schema.in(analyzed[0])).Scan(&known)
		if err != nil || known >= rows {
			return err
		}
		_, err = on.ExecContext(ctx, s.schema.in("ANALYZE "+strings.Join(analyzed, ", ")))
		return err
	})
}

// account adds the rows of a batch to the total and starts an ANALYZE when it
// is due. It is called during a write, so that Close waits for it.
func (s *Store) account(batch []*pending) {
	var rows int64
	for _, p := range batch {
		n, entries, tenant := p.wrote()
		rows += int64(n)
		s.noteLogs(tenant, entries)
	}
	after := s.written.Add(rows)
	for mark := int64(analyzeFirst); mark <= analyzeLast; mark *= 10 {
		if after-rows < mark && mark <= after {
			s.queue.busy.Go(func() {
				_ = s.analyze(storage.NoWait(context.Background()), mark) // if this fails, the server does it later
			})
			return
		}
	}
}

// wrote returns how many rows a change or a reading has written, how many of them are
// log entries, and their tenant.
func (p *pending) wrote() (rows, entries int, tenant storage.ID) {
	switch c := p.change; {
	case c != nil:
		return len(c.InsertTokens) + len(c.InsertRecords) + len(c.InsertJobs) + len(c.Logs), len(c.Logs), c.Tenant
	case p.reading.Token.Body != nil:
		return 1, 1, p.reading.Tenant
	default:
		return 0, 0, p.reading.Tenant
	}
}
