//go:build !race

package bench

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// importPiece is the number of rows that a contender moves in one turn.
const importPiece = 25_000

// rowsToMove returns the number of rows to import and export: 1,000,000, or the
// value of VAULT_BENCH_ROWS.
func rowsToMove(b *testing.B) int {
	b.Helper()
	text := os.Getenv("VAULT_BENCH_ROWS")
	if text == "" {
		return 1_000_000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < importPiece {
		b.Fatalf("VAULT_BENCH_ROWS must be a number of at least %d", importPiece)
	}
	return n
}

// takeTurns lets the movers move all rows, one piece per call. If prepare is not nil,
// it prepares a piece.
func takeTurns(b *testing.B, rows int, movers ...*contender) {
	b.Helper()
	for piece := range rows / importPiece {
		for i := range movers {
			m := movers[(i+piece)%len(movers)]
			if m.prepare != nil {
				if err := m.prepare(importPiece); err != nil {
					b.Fatalf("%s: %v", m.name, err)
				}
			}
			start := time.Now()
			if err := m.call(); err != nil {
				b.Fatalf("%s: %v", m.name, err)
			}
			m.rates = append(m.rates, importPiece/time.Since(start).Seconds())
		}
	}
}

var cardIDs atomic.Int64

// cardRows returns rows like an export of another vault.
func cardRows(n int) iter.Seq2[vault.TokenParams, error] {
	return func(yield func(vault.TokenParams, error) bool) {
		for range n {
			row := cards()[rand.N(len(cards()))]
			row.ID = fmt.Sprintf("card-%012d", cardIDs.Add(1))
			if !yield(row, nil) {
				return
			}
		}
	}
}

func importCards(ctx context.Context, c *vault.Client, n int) error {
	for result, err := range c.Import(ctx, cardRows(n), nil) {
		if err != nil {
			return err
		}
		if result.Outcome != vault.ImportCreated {
			return fmt.Errorf("row %d: %w", result.Row, result.Err)
		}
	}
	return nil
}

// BenchmarkImport compares an import of cards with a bare writer of batches of 1,000.
func BenchmarkImport(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		ctx := context.Background()
		user := newUser(b, on.openStore(b, on.create(b)))
		ours := &contender{name: "import", call: func() error { return importCards(ctx, user.Client, importPiece) }}
		writer := on.bareWriter(b, on.emptyDatabase(b))
		supplied := newSupply(b, nil)
		supplied.create = func() error { return importCards(ctx, supplied.user.Client, 1000) }
		bare := &contender{name: "bare", prepare: supplied.prepareBatches, call: func() error {
			for range importPiece / 1000 {
				c, err := supplied.take()
				if err != nil {
					return err
				}
				if err := writer.writeMany(c); err != nil {
					return err
				}
			}
			return nil
		}}
		takeTurns(b, rowsToMove(b), ours, bare)
		against := figure{what: "Import / bare batch", metric: "x/bare", backend: on.name, callers: "1",
			value: ours.over(bare), unit: "x", rates: ours.perSecond() + ", " + bare.perSecond()}
		if on == onPostgres {
			against.what, against.goal = "Import / COPY", 0.6
		}
		report(b, against)
	})
}

// BenchmarkExport compares an export of cards with a scan that only decrypts a
// body of the same size for each row.
func BenchmarkExport(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		ctx, rows := context.Background(), min(rowsToMove(b), 8*importPiece)
		dsn := on.create(b)
		u := newUser(b, on.openStore(b, dsn))
		must.Do(b, importCards(ctx, u.Client, rows))
		next, stop := func() (vault.TokenParams, error, bool) { return vault.TokenParams{}, nil, false }, func() {}
		ours := &contender{name: "export", call: func() error {
			for range importPiece {
				_, err, ok := next()
				if err != nil {
					return err
				}
				if !ok {
					stop()
					next, stop = iter.Pull2(u.Export(ctx, nil))
				}
			}
			return nil
		}}
		defer func() { stop() }()
		scan := newScan(b, on, dsn)
		bare := &contender{name: "scan", call: func() error { return scan.rows(importPiece) }}
		takeTurns(b, 10*importPiece, ours, bare)
		report(b, figure{what: "Export / scan that opens every row", metric: "x/scan", backend: on.name, callers: "1",
			value: ours.over(bare), unit: "x", goal: 0.5, rates: ours.perSecond() + ", " + bare.perSecond()})
	})
}

// scan reads all rows in order through a driver, and starts again at the end.
type scan struct {
	db     *sql.DB
	open   *sql.Rows
	aead   seal.AEAD
	sealed map[int][]byte // by length; replace the bodies, whose key only the vault has
}

func newScan(b *testing.B, on *backend, dsn string) *scan {
	b.Helper()
	aead := must.Get(seal.NewAEAD(seal.RandomKey()))(b)
	s := &scan{aead: aead, sealed: map[int][]byte{}}
	if on == onPostgres {
		s.db = openPostgres(b, dsn, true)
		return s
	}
	s.db = must.Get(sql.Open("sqlite", dsn))(b)
	b.Cleanup(func() { _ = s.db.Close() })
	return s
}

const scanText = `SELECT id, type, containers, key_version, body, expires_at FROM vault_tokens ORDER BY tenant_id, ord`

func (s *scan) rows(n int) error {
	var id, kind, containers string
	var version int
	var body []byte
	var expires sql.NullInt64
	for n > 0 {
		if s.open == nil {
			var err error
			if s.open, err = s.db.Query(scanText); err != nil { //nolint:rowserrcheck // a scan that ends early starts again
				return err
			}
		}
		for ; n > 0 && s.open.Next(); n-- {
			if err := s.open.Scan(&id, &kind, &containers, &version, &body, &expires); err != nil {
				return err
			}
			if err := s.decrypt(len(body)); err != nil {
				return err
			}
		}
		if n > 0 {
			if err := s.open.Close(); err != nil {
				return err
			}
			s.open = nil
		}
	}
	return nil
}

// decrypt decrypts a body of the same length.
func (s *scan) decrypt(length int) error {
	const added = 40 // bytes that sealing adds
	if s.sealed[length] == nil {
		sealed, err := s.aead.Encrypt(make([]byte, max(length-added, 0)), nil)
		if err != nil {
			return err
		}
		s.sealed[length] = sealed
	}
	return must.Err(s.aead.Decrypt(s.sealed[length], nil))
}
