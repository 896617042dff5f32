package vault_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// alter runs a statement that changes rows.
func (a *attacked) alter(rows int64, text string, args ...any) {
	a.Helper()
	done, err := a.db.ExecContext(a.Context(), a.bind(text), args...)
	if err != nil {
		a.Fatalf("%s: %v", text, err)
	}
	if n, err := done.RowsAffected(); n != rows || err != nil {
		a.Fatalf("%s: %d rows (%v), want %d", text, n, err, rows)
	}
}

// expireEntries returns the ids in the log entries about expiry, in order.
func (a *attacked) expireEntries() (ids []string) {
	a.Helper()
	for _, o := range a.owners {
		for e, err := range o.AllLogs(a.Context(), vault.ListLogsParams{Operation: vault.OperationExpire}) {
			if err != nil {
				a.Fatal(err)
			}
			ids = append(ids, e.EntityID)
		}
	}
	slices.Sort(ids)
	return ids
}

// sessionRow creates a session and returns its id.
func (a *attacked) sessionRow(public *vault.Client) uuid.UUID {
	a.Helper()
	if _, err := public.CreateSession(a.Context()); err != nil {
		a.Fatal(err)
	}
	page, err := a.owners[0].ListSessions(a.Context(), vault.ListSessionsParams{})
	if err != nil {
		a.Fatal(err)
	}
	return page.Data[0].ID
}

// public returns a client of a new public application.
func (a *attacked) public() (*vault.Client, uuid.UUID) {
	a.Helper()
	app, err := a.owners[0].CreateApplication(a.Context(), vault.ApplicationParams{
		Name: "Public", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"},
	})
	if err != nil {
		a.Fatal(err)
	}
	return authenticated(a, a.v, app.Key), app.ID
}

var yearOne = time.Time{}.UnixMicro()

// alteredTokens are changes of tokens that no sweep may take for an expiry.
var alteredTokens = map[string]struct {
	due, card bool
	set       string
	arg       any
}{
	"live":            {set: "expires_at = ?", arg: 1},
	"live, year one":  {set: "expires_at = ?", arg: yearOne},
	"live, long ago":  {set: "expires_at = ?", arg: -1 << 62},
	"live, no cvc":    {set: "cvc_expires_at = ?", arg: 1},
	"live cvc":        {card: true, set: "cvc_expires_at = ?", arg: 1},
	"due cvc":         {card: true, due: true, set: "cvc = ?", arg: []byte("another")},
	"due, earlier":    {due: true, set: "expires_at = expires_at - ?", arg: 1},
	"due, type":       {due: true, set: "type = ?", arg: "card_number"},
	"due, containers": {due: true, set: "containers = ?", arg: "/pci/high/"},
	"due, other set":  {due: true, set: "set_id = ?", arg: bytes.Repeat([]byte{7}, 16)},
	"due, no set":     {due: true, set: "set_id = ?", arg: []byte{7}},
	"due, short body": {due: true, set: "body = substr(body, 1, ?)", arg: 20},
	"due, other key":  {due: true, set: "key_version = ?", arg: 99},
	"due, no creator": {due: true, set: "created_by = ?", arg: []byte{7}},
	"due, no tenant":  {due: true, set: "tenant_id = ?", arg: []byte{7}},
}

// expiring creates tokens, cards with a cvc and a session, of which the due ones
// have expired when it returns.
func (a *attacked) expiring(public *vault.Client) (due, live uuid.UUID) {
	a.Helper()
	soon := a.clock.Now().Add(time.Hour)
	make := func(id string, card bool, end time.Time) {
		p := vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x", ExpiresAt: end}
		if card {
			p = vault.TokenParams{ID: id, Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}}
		}
		create(a, a.owners[0].Client, p)
	}
	make("good", false, soon)
	make("good cvc", true, time.Time{})
	for id, is := range alteredTokens {
		if is.due {
			make(id, is.card, soon)
		}
	}
	due = a.sessionRow(public)
	a.clock.Advance(time.Hour)
	for id, is := range alteredTokens {
		if !is.due {
			make(id, is.card, time.Time{})
		}
	}
	return due, a.sessionRow(public)
}

// The sweep opens what it deletes. A row that was altered stays, raises an alarm
// and is counted, the log says nothing about it, and the others are swept.
func TestSweepOpensWhatItDeletes(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		public, app := a.public()
		malformed := a.sessionRow(public)
		due, live := a.expiring(public)
		for id, is := range alteredTokens {
			a.alter(1, "UPDATE vault_tokens SET "+is.set+" WHERE id = ?", is.arg, id)
		}
		bad := len(alteredTokens)
		record := func(id uuid.UUID, kind, column string, value any) {
			a.alter(1, "UPDATE vault_records SET "+column+" = ? WHERE id = ? AND kind = ?", value, id[:], kind)
			bad++
		}
		record(live, "session", "expires_at", 1)
		record(malformed, "session", "key_hash", []byte{7})
		record(app, "application", "expires_at", yearOne)
		record(a.owners[1].TenantID(), "ring", "expires_at", 1)
		a.heard.take()
		same(a, "swept", sweep(a, a.v), vault.Swept{Tokens: 1, CVCs: 1, Sessions: 1, Unopened: bad})
		same(a, "alarms", len(a.heard.take()), bad)
		same(a, "swept again", sweep(a, a.v), vault.Swept{Unopened: bad})
		want := []string{"good", "good cvc", due.String()}
		slices.Sort(want)
		same(a, "entries about expiry", a.expireEntries(), want)
		create(a, a.owners[1].Client, aText("still", "x"))

		a.alter(4, "UPDATE vault_tokens SET expires_at = NULL, cvc_expires_at = NULL WHERE id = 'live' OR id LIKE 'live, %'")
		for id, is := range alteredTokens {
			if !is.due && !is.card {
				get(a, a.owners[0].Client, id)
			}
		}
	})
}

// Rows that do not open come first and are more than a page. They do not keep the
// sweep from the row behind them.
func TestBadRowsDoNotHideOthersFromTheSweep(t *testing.T) {
	t.Parallel()
	const bad = 250
	attack(t, func(a *attacked) {
		public, _ := a.public()
		for i := range bad {
			create(a, a.owners[0].Client, vault.TokenParams{ID: fmt.Sprint("bad", i), Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
			if _, err := public.CreateSession(a.Context()); err != nil {
				a.Fatal(err)
			}
		}
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good", Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good cvc", Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
		good := a.sessionRow(public)
		a.clock.Advance(time.Hour)
		a.alter(bad, "UPDATE vault_records SET expires_at = ? WHERE kind = 'session' AND id <> ?", 1, good[:])
		a.alter(bad, "UPDATE vault_tokens SET cvc_expires_at = ? WHERE id LIKE 'bad%'", 1)
		same(a, "swept", sweep(a, a.v), vault.Swept{CVCs: 1, Sessions: 1, Tokens: 1, Unopened: 2 * bad})
		a.alter(bad, "UPDATE vault_tokens SET expires_at = ? WHERE id LIKE 'bad%'", 1)
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good", Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		a.clock.Advance(time.Hour)
		same(a, "swept behind tokens", sweep(a, a.v), vault.Swept{Tokens: 1, Unopened: 2 * bad})
	})
}

// A call that deletes a token with a log entry opens the row first. If the row was
// altered, the call fails, the row stays, and there is an alarm.
func TestAlteredTokensAreNotDeleted(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	ctx, o := t.Context(), v.Owner
	refused := func(what, id string, failed bool) {
		t.Helper()
		alarms := heard.take()
		if got := operations(t, v, id); !failed || len(alarms) != 1 || !slices.Equal(got, []string{"create"}) {
			t.Errorf("%s: failed %t, alarms %q, log %q", what, failed, alarms, got)
		}
	}
	for column, value := range map[string]string{
		"type": "'card_number'", "containers": "'/other/'", "set_id": "randomblob(16)", "created_by": "randomblob(16)",
		"expires_at": fmt.Sprint(v.Clock.Now().Add(time.Hour).UnixMicro()), "body": "randomblob(100)",
	} {
		create(t, o.Client, aText(column, "x"))
		exec("UPDATE vault_tokens SET "+column+" = "+value+" WHERE id = ?", column)
		refused("delete after a change of "+column, column, o.DeleteToken(ctx, column) != nil)
		done, err := o.EraseTokens(ctx, vault.EraseParams{Query: "id:" + column, Reason: "case"})
		refused("erase after a change of "+column, column, err == nil && done.Count == 0 && done.Left == 1)
	}
	create(t, o.Client, aText("live", "x"))
	exec("UPDATE vault_tokens SET expires_at = 1 WHERE id = 'live'")
	_, err := o.CreateToken(ctx, aText("live", "x"))
	refused("create in the place of a token that seems to have expired", "live", err != nil)
	_, _, err = o.Once(ctx, vault.IdempotencyKey{Key: "abc"}, func(ctx context.Context, o *vault.Owner) (vault.StoredResponse, error) {
		_, err := o.CreateToken(ctx, aText("live", "x"))
		return vault.StoredResponse{}, err
	})
	refused("create inside of Once", "live", err != nil)
}

// An erasure leaves tokens that do not open, or that someone entered under a
// person's metadata, and erases the others.
func TestEraseLeavesAlteredTokens(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	const bad = 250 // more than one piece
	for i := range bad + 2 {
		id := fmt.Sprint("jane", i)
		create(t, v.Owner.Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"person": "jane"}})
	}
	create(t, v.Owner.Client, vault.TokenParams{ID: "john", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"person": "john"}})
	exec("UPDATE vault_tokens SET containers = '/x/' WHERE id LIKE 'jane%' AND id NOT IN ('jane0', 'jane251')")
	exec(`INSERT INTO vault_token_hashes (tenant_id, hash, ord) SELECT h.tenant_id, h.hash, j.ord FROM vault_token_hashes h, vault_tokens t, vault_tokens j
		WHERE t.tenant_id = h.tenant_id AND t.ord = h.ord AND t.id = 'jane0' AND j.id = 'john' ON CONFLICT DO NOTHING`)
	done, err := v.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "metadata.person:jane", Reason: "case"})
	if err != nil || done.Count != 2 || done.Left != bad+1 || len(heard.take()) != bad+1 {
		t.Errorf("%+v, %v", done, err)
	}
	get(t, v.Owner.Client, "john")
}

// The same for applications, reactors, proxies and sessions.
func TestAlteredRecordsAreNotDeleted(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t)
	ctx, o := t.Context(), v.Owner
	if _, err := v.Public.CreateSession(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := o.CreateReactor(ctx, reactorParams("r")); err != nil {
		t.Fatal(err)
	}
	if _, err := o.CreateProxy(ctx, vault.ProxyParams{Name: "p", DestinationURL: "https://example.com"}); err != nil {
		t.Fatal(err)
	}
	exec("UPDATE vault_records SET name = 'other'")
	for kind, remove := range map[string]func(context.Context, uuid.UUID) error{
		"application": o.DeleteApplication, "reactor": o.DeleteReactor, "proxy": o.DeleteProxy, "session": o.DeleteSession,
	} {
		var id []byte
		if err := v.DB.QueryRowContext(ctx, `SELECT max(id) FROM vault_records WHERE kind = ?`, kind).Scan(&id); err != nil {
			t.Fatal(err)
		}
		err := remove(ctx, uuid.UUID(id))
		if got := operations(t, v, uuid.UUID(id).String()); err == nil || !slices.Equal(got, []string{"create"}) {
			t.Errorf("%s: %v, log %q", kind, err, got)
		}
		same(t, kind, heard.take(), []string{"unreadable"})
	}
}

// A tombstone that nobody ordered does not delete a tenant that has its keys.
func TestInventedTombstoneDeletesNothing(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		tenant := a.owners[0].TenantID()
		tok := create(a, a.owners[0].Client, aText("kept", "x"))
		for _, under := range [][]byte{make([]byte, 16), tenant[:]} {
			a.alter(1, `INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_version, created_at, rev, body)
				VALUES (?, 'tombstone', ?, '', '', 0, 1, 0, ?)`, under, tenant[:], []byte{})
		}
		if _, err := a.v.Sweep(a.Context()); err != nil {
			a.Error(err)
		}
		get(a, a.owners[0].Client, tok.ID)
		if diff := cmp.Diff([]string{"altered", "altered"}, a.heard.take()); diff != "" {
			a.Errorf("alarms (-want +got):\n%s", diff)
		}
	})
}
