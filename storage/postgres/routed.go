package postgres

import (
	"bytes"
	"context"
	"database/sql/driver"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// inSteps runs steps in a transaction. A single step needs no explicit
// transaction, unless it uses the transaction number.
func (s *writer) inSteps(steps []statements.Step) error {
	ctx := context.Background()
	switch {
	case len(steps) == 0:
		return nil
	case len(steps) == 1 && !steps[0].Numbered():
		return steps[0].Do(ctx, s)
	}
	return s.transact(func() error {
		for _, p := range steps {
			if err := p.Do(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

// Number implements runner.
func (s *writer) Number(context.Context) (any, error) {
	return binary.BigEndian.AppendUint64(nil, uint64(s.xid)), nil
}

// routedReadText reads tokens by their ids.
var routedReadText = "SELECT " + readColumns + " FROM unnest($2::text[]) AS u(id) CROSS JOIN LATERAL (" +
	statements.FirstFrom("k.*", "vault_tokens", "id", "u.id") + ") AS t WHERE t.id = u.id"

// readRouted reads the tokens of a batch, which are all of one tenant, and then
// logs the reads.
func (s *writer) readRouted(ctx context.Context, batch []*pending) error {
	defer cutAfter(batch[0].reading.ctx, s.cut)()
	ids := wire.NewArray(wire.OIDText, len(batch))
	for _, p := range batch {
		ids.Text(p.reading.ID)
	}
	tenant := batch[0].reading.Tenant
	err := s.Query(ctx, routedReadText, []any{tenant[:], ids.Value()}, true, func(row []driver.Value) error {
		t := storage.Token{Tenant: tenant}
		if err := sqlstore.ScanToken(row, &t); err != nil {
			return err
		}
		for _, p := range batch {
			p.reading.take(&t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	var entries []*storage.Log
	for _, p := range batch {
		if r := p.reading; r.token.Body != nil {
			r.Entry.EntityType, r.Entry.EntityID = r.token.Type, r.token.ID
			entries = append(entries, &r.Entry)
		}
	}
	if len(entries) == 0 {
		return nil
	}
	return s.enterRouted(tenant, entries)
}

// maxListedLogs limits the entries that a statement lists, and with them the
// number of its texts.
const maxListedLogs = 32

// enterRouted logs reads of a tenant. It lists a few of them in one statement
// without an explicit transaction, so that the server fills in the transaction
// number of each row.
func (s *writer) enterRouted(tenant storage.ID, entries []*storage.Log) error {
	if len(entries) > maxListedLogs {
		st := s.Start(tenant)
		logs := make([]storage.Log, len(entries))
		for i := range entries {
			logs[i] = *entries[i]
		}
		st.InsertLogs(logs)
		return s.inSteps(st.All())
	}
	args := []any{tenant[:]}
	for _, e := range entries {
		row := wire.NewRow(wire.LogColumns)
		wire.PutLog(row, e)
		args = row.Values(args)
	}
	return s.exec(listedLogs(len(entries)), args)
}

// listedLogs returns the statement that inserts n log entries.
func listedLogs(n int) string {
	rows := make([]string, n)
	for i := range rows {
		rows[i] = "($1::bytea, " + wire.LogColumns.Places(1+i*len(wire.LogColumns), "") + ")"
	}
	return "INSERT INTO vault_logs (tenant_id, " + wire.LogColumns.Names("") + ") VALUES " + strings.Join(rows, ", ")
}

// take gives a reading the token that it names, unless the token has expired.
// It copies the bytes, because several readings may get the same token.
func (r *reading) take(t *storage.Token) {
	if r.ID != t.ID || !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(r.Entry.CreatedAt) {
		return
	}
	r.found, r.token = true, *t
	r.token.Body, r.token.CVC = bytes.Clone(t.Body), bytes.Clone(t.CVC)
	r.token.Containers = slices.Clone(t.Containers)
}
