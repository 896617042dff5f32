package statements

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/wire"
)

// Reading is a request for a token, with its result.
type Reading struct {
	storage.Reading
	Found bool
	Token storage.Token // its body is nil if it is large, and then nothing is logged
}

// MaxSharedBody limits the size of bodies that a statement for several readings
// or for a page returns.
const MaxSharedBody = 64 << 10

// readColumns are the columns of a token, with NULL for a large body.
var readColumns = sqlstore.SmallBodies(MaxSharedBody)

// Read reads the tokens of a batch and logs the reads in one statement.
func (AsOne) Read(s *Session, batch []*Reading) []Step {
	single := len(batch) == 1
	rows := emptied(s.readings[wire.BoolByte(single)], readingColumns, single)
	s.readings[wire.BoolByte(single)] = rows
	for i, r := range batch {
		rows.Int(int64(i), sqlstore.NotNull)
		putReading(rows, &r.Reading)
	}
	text := readingTexts[wire.BoolByte(rows.Many())][wire.BoolByte(s.Unsynced)]
	return s.one(text, rows.Values(s.parameters()), func(row []driver.Value) error {
		i, ok := row[0].(int64)
		if !ok || i < 0 || i >= int64(len(batch)) {
			return errors.New("postgres: the server returned a row that no read asked for")
		}
		r := batch[i]
		r.Found, r.Token.Tenant = true, r.Tenant
		return sqlstore.ScanToken(row[1:], &r.Token)
	})
}

// LogReads logs reads of any tenants.
func (AsOne) LogReads(s *Session, changes []*storage.Change) []Step {
	logs := emptied(s.logs, groupLogColumns, false)
	s.logs = logs
	for _, c := range changes {
		for i := range c.Logs {
			logs.Bytes(c.Tenant[:], sqlstore.NotNull)
			sqlstore.PutLog(logs, &c.Logs[i])
		}
	}
	return s.one(readLogTexts[wire.BoolByte(s.Unsynced)], logs.Values(s.parameters()), nil)
}

// readLogTexts are the statements of LogReads, in a session that is synced or not.
var readLogTexts = [2]string{
	"WITH logged AS (" + groupLogColumns.Insert("vault_logs", 0, nil) + ") SELECT " + Unsynced,
	groupLogColumns.Insert("vault_logs", 0, nil),
}

var readingColumns = wire.ParseColumns("n:bigint tenant:bytea token:text entry:bytea at:bigint actor:bytea actor_type:text operation:text message:text actor_name:text origin:text mac:bytea")

func putReading(rows *wire.Rows, r *storage.Reading) {
	rows.Bytes(r.Tenant[:], sqlstore.NotNull)
	rows.Text(r.ID, sqlstore.NotNull)
	rows.Bytes(r.Entry.ID[:], sqlstore.NotNull)
	rows.Int(r.Entry.CreatedAt.UnixMicro(), sqlstore.NotNull)
	rows.Bytes(r.Entry.ActorID[:], r.Entry.ActorID.IsZero())
	rows.Text(r.Entry.ActorType, sqlstore.NotNull)
	rows.Text(r.Entry.Operation, sqlstore.NotNull)
	rows.Text(r.Entry.Message, sqlstore.NotNull)
	rows.Text(r.Entry.ActorName, r.Entry.ActorName == "")
	rows.Text(r.Entry.Origin, r.Entry.Origin == "")
	rows.Bytes(r.Entry.Mac[:], r.Entry.Mac == storage.Hash{})
}

// readingTexts are the results of readingText.
var readingTexts = [2][2]string{
	{readingText(false, false), readingText(false, true)},
	{readingText(true, false), readingText(true, true)},
}

// readingText returns the statement for one or many readings, in a session that
// is already unsynced or must be made so for the transaction. It looks up each token
// separately, in the order of the index on ids, whatever the server's statistics are.
// A session that is unsynced does not sort, so it needs no [sqlstore.InOrder].
//
// It leaves out a large body, so that other readings in the statement do not
// wait for it. It then writes no log entry either, because the token may be
// deleted before its body is read.
func readingText(many, sessionUnsynced bool) string {
	from, inOrder := "found", ""
	if !sessionUnsynced {
		from += ", (SELECT " + Unsynced + ") AS relaxed"
		inOrder = ", " + sqlstore.InOrder
	}
	return `WITH found AS (SELECT r.*, t.* FROM ` + readingColumns.From(0, many, "r") + `
			CROSS JOIN LATERAL (SELECT ` + readColumns + `
				FROM vault_tokens t` + inOrder + ` WHERE t.tenant_id = r.tenant AND t.id >= r.token AND t.id <= r.token
				AND (t.expires_at IS NULL OR t.expires_at > r.at) ORDER BY t.id LIMIT 1) AS t),
		logged AS (INSERT INTO vault_logs (tenant_id, ` + wire.LogColumns.Names("") + `)
			SELECT tenant, entry, at, actor, actor_type, type, id, operation, message, actor_name, origin, mac FROM ` + from + `
			WHERE body IS NOT NULL)
		SELECT n, ` + sqlstore.TokenColumns + ` FROM found AS t`
}

// readText reads tokens by their ids.
var readText = "SELECT " + readColumns + " FROM pg_catalog.unnest($2::text[]) AS u(id) CROSS JOIN LATERAL (" +
	FirstFrom("k.*", "vault_tokens", "id", "u.id") + ") AS t WHERE t.id = u.id"

// Read reads the tokens of a batch, which are all of one tenant, and then logs the
// reads.
func (AsSteps) Read(_ *Session, batch []*Reading) []Step {
	ids := wire.NewArray(sqlstore.Text, len(batch))
	for _, r := range batch {
		ids.Text(r.ID)
	}
	tenant := batch[0].Tenant
	found := func(row []driver.Value) error {
		t := storage.Token{Tenant: tenant}
		if err := sqlstore.ScanToken(row, &t); err != nil {
			return err
		}
		for _, r := range batch {
			r.take(&t)
		}
		return nil
	}
	return []Step{
		{text: readText, args: []any{tenant[:], ids.Value()}, prepare: true, row: found},
		{later: func() Step { return logFound(tenant, batch) }},
	}
}

// take gives a reading the token that it names, unless the token has expired.
// It copies the bytes, because several readings may get the same token.
func (r *Reading) take(t *storage.Token) {
	if r.ID != t.ID || !t.ExpiresAt.IsZero() && !t.ExpiresAt.After(r.Entry.CreatedAt) {
		return
	}
	r.Found, r.Token = true, *t
	r.Token.Body, r.Token.CVC = bytes.Clone(t.Body), bytes.Clone(t.CVC)
	r.Token.Containers = slices.Clone(t.Containers)
}

// logFound logs the readings that have a result.
func logFound(tenant storage.ID, batch []*Reading) Step {
	var entries []storage.Log
	for _, r := range batch {
		if r.Token.Body != nil {
			r.Entry.EntityType, r.Entry.EntityID = r.Token.Type, r.Token.ID
			entries = append(entries, r.Entry)
		}
	}
	if len(entries) == 0 {
		return Step{}
	}
	return listLogs(tenant, entries)
}

// maxListedLogs limits the entries that a statement lists, and with them the
// number of its texts.
const maxListedLogs = 32

// LogReads logs reads of one tenant. It lists a few of them in one statement without
// an explicit transaction, so that the server fills in the transaction number of each
// row.
func (c AsSteps) LogReads(_ *Session, changes []*storage.Change) []Step {
	var entries []storage.Log
	for _, c := range changes {
		entries = append(entries, c.Logs...)
	}
	tenant := changes[0].Tenant
	if len(entries) <= maxListedLogs {
		return []Step{listLogs(tenant, entries)}
	}
	st := NewStatement(tenant)
	st.Composer = c
	c.insertLogs(st, entries)
	return st.All()
}

// listLogs inserts log entries.
func listLogs(tenant storage.ID, entries []storage.Log) Step {
	args, rows := []any{tenant[:]}, make([]string, len(entries))
	for i := range entries {
		rows[i] = "($1::bytea, " + wire.LogColumns.Placeholders(len(args), "") + ")"
		row := wire.NewRow(wire.LogColumns)
		sqlstore.PutLog(row, &entries[i])
		args = row.Values(args)
	}
	text := "INSERT INTO vault_logs (tenant_id, " + wire.LogColumns.Names("") + ") VALUES " + strings.Join(rows, ", ")
	return Step{text: text, args: args, prepare: true, want: anyRows}
}
