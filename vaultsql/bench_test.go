package vaultsql_test

import (
	"database/sql"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// benchRows is the number of rows in the benchmarks, with four columns each.
const benchRows = 1000

// BenchmarkOpen reads a thousand rows, with and without opening their four
// sealed columns.
//
//	go test -run '^$' -bench . -benchtime 5x ./vaultsql
func BenchmarkOpen(b *testing.B) {
	for name, dsn := range databases {
		w := newWorld(b, dsn(b))
		must.Get(w.db.Exec("CREATE TABLE people (a text, b text, c text, d text)"))(b)
		must.Do(b, w.writeFour(b, w.Owner.Client))
		b.Run(name+"/rows", func(b *testing.B) {
			for b.Loop() {
				w.readFour(b)
			}
			perRow(b)
		})
		b.Run(name+"/opened", func(b *testing.B) {
			for b.Loop() {
				open(b, w.Private, w.readFour(b))
			}
			perRow(b)
		})
	}
}

// BenchmarkSeal writes a thousand rows in a transaction, with existing ids,
// and with values that it seals in the transaction.
func BenchmarkSeal(b *testing.B) {
	for name, dsn := range databases {
		w := newWorld(b, dsn(b))
		must.Get(w.db.Exec("CREATE TABLE people (a text, b text, c text, d text)"))(b)
		for _, as := range []struct {
			name string
			c    *vault.Client
		}{{"rows", nil}, {"sealed", w.Owner.Client}} {
			b.Run(name+"/"+as.name, func(b *testing.B) {
				for b.Loop() {
					must.Do(b, w.writeFour(b, as.c))
				}
				perRow(b)
			})
		}
	}
}

// perRow reports the time for a row.
func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*benchRows), "µs/row")
}

// readFour reads all rows.
func (w *world) readFour(b *testing.B) []four {
	b.Helper()
	found, err := w.db.QueryContext(b.Context(), "SELECT a, b, c, d FROM people")
	must.Do(b, err)
	defer func() { _ = found.Close() }() // found.Err reports errors
	rows := make([]four, 0, benchRows)
	for found.Next() {
		var r four
		must.Do(b, found.Scan(&r.A, &r.B, &r.C, &r.D))
		rows = append(rows, r)
	}
	if found.Err() != nil || len(rows) < benchRows {
		b.Fatal(len(rows), found.Err())
	}
	return rows
}

// writeFour writes rows in a transaction. If there is a client, it seals them
// first.
func (w *world) writeFour(b *testing.B, c *vault.Client) error {
	b.Helper()
	tx, err := w.db.BeginTx(b.Context(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	rows := make([]four, benchRows)
	for i := range rows {
		if c == nil {
			if err := scanIDs(&rows[i]); err != nil {
				return err
			}
			continue
		}
		text := vaultsql.NewText("Jane Doe of Main St")
		rows[i] = four{text, text, text, vaultsql.NewCard(vault.CardData{Number: number})}
	}
	if c != nil {
		if err := vaultsql.Seal(b.Context(), c.InTx(tx), rows); err != nil {
			return err
		}
	}
	return insertFour(b, tx, rows)
}

// scanIDs gives a row ids that no token has.
func scanIDs(r *four) error {
	const id = "019b796d-d600-7000-8002-20a4fc064178"
	for _, dst := range []sql.Scanner{&r.A, &r.B, &r.C, &r.D} {
		if err := dst.Scan(id); err != nil {
			return err
		}
	}
	return nil
}

func insertFour(b *testing.B, tx *sql.Tx, rows []four) error {
	insert, err := tx.PrepareContext(b.Context(), "INSERT INTO people (a, b, c, d) VALUES ($1, $2, $3, $4)")
	if err != nil {
		return err
	}
	defer func() { _ = insert.Close() }()
	for _, r := range rows {
		if _, err := insert.ExecContext(b.Context(), r.A, r.B, r.C, r.D); err != nil {
			return err
		}
	}
	return tx.Commit()
}
