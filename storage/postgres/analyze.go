package postgres

import (
	"context"

	"github.com/seed-72ea4aab/vault/storage"
)

// A prepared plan that was made for empty tables may find a token by reading
// all of its tenant's, since no index seems better than another. The server
// makes new plans when it has analyzed the tables, which it does by itself, but
// only after a minute or more; so the first rows that a store writes make it do
// that, and then ten times as many, and so on.
const (
	analyzeFirst = 500
	analyzeLast  = 500_000
)

const analyzeText = "ANALYZE vault_tokens, vault_token_hashes, vault_logs, vault_records, vault_lookups, vault_claims, vault_jobs"

// account adds the rows of a batch to those that were written, and has the
// tables analyzed when it is time. It is called while a write is under way, so
// that Close waits for it.
func (s *Store) account(batch []*pending) {
	var rows int64
	for _, p := range batch {
		rows += p.rows()
		s.noteLogs(p.entries())
	}
	after := s.written.Add(rows)
	for mark := int64(analyzeFirst); mark <= analyzeLast; mark *= 10 {
		if after-rows < mark && mark <= after {
			s.queue.busy.Go(func() {
				// What fails here is done by the server later.
				ctx := storage.NoWait(context.Background())
				_ = s.maintain(ctx, func(on execer) error {
					_, err := on.ExecContext(ctx, s.schema.in(analyzeText))
					return err
				})
			})
			return
		}
	}
}

// rows is how many rows a change writes, or a reading.
func (p *pending) rows() int64 {
	switch c := p.change; {
	case c != nil:
		return int64(len(c.InsertTokens) + len(c.InsertRecords) + len(c.InsertJobs) + len(c.Logs))
	case p.reading.token.Body != nil:
		return 1
	default:
		return 0
	}
}

// entries is how many log entries a change has written, or a reading, and whose.
func (p *pending) entries() (storage.ID, int) {
	switch c := p.change; {
	case c != nil:
		return c.Tenant, len(c.Logs)
	case p.reading.token.Body != nil:
		return p.reading.Tenant, 1
	default:
		return p.reading.Tenant, 0
	}
}
