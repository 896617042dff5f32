//go:build !race

package tampering

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
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
			must.Do(a, err)
			ids = append(ids, e.EntityID)
		}
	}
	slices.Sort(ids)
	return ids
}

// sessionRow creates a session and returns its id.
func (a *attacked) sessionRow(public *vault.Client) uuid.UUID {
	a.Helper()
	must.Get(public.CreateSession(a.Context()))(a)
	page := must.Get(a.owners[0].ListSessions(a.Context(), vault.PageParams{}))(a)
	return page.Data[0].ID
}

// public returns a client of a new public application.
func (a *attacked) public() (*vault.Client, uuid.UUID) {
	a.Helper()
	app := must.Get(a.owners[0].CreateApplication(a.Context(), vault.ApplicationParams{
		Name: "Public", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"},
	}))(a)
	return must.Get(a.v.Authenticate(a.Context(), app.Key))(a), app.ID
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

// Case 5: the sweep opens what it deletes. A row that was altered stays, raises an alarm
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
		must.Same(a, "swept", vault.Swept{Tokens: 1, CVCs: 1, Sessions: 1, Unopened: bad}, sweep(a, a.v))
		must.Same(a, "alarms", bad, len(a.heard.take()))
		must.Same(a, "swept again", vault.Swept{Unopened: bad}, sweep(a, a.v))
		want := []string{"good", "good cvc", due.String()}
		slices.Sort(want)
		must.Same(a, "entries about expiry", want, a.expireEntries())
		create(a, a.owners[1].Client, aText("still"))

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
			must.Get(public.CreateSession(a.Context()))(a)
		}
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good", Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good cvc", Type: vault.TypeCard, Data: vault.CardData{Number: visa, CVC: "987"}})
		good := a.sessionRow(public)
		a.clock.Advance(time.Hour)
		a.alter(bad, "UPDATE vault_records SET expires_at = ? WHERE kind = 'session' AND id <> ?", 1, good[:])
		a.alter(bad, "UPDATE vault_tokens SET cvc_expires_at = ? WHERE id LIKE 'bad%'", 1)
		must.Same(a, "swept", vault.Swept{CVCs: 1, Sessions: 1, Tokens: 1, Unopened: 2 * bad}, sweep(a, a.v))
		a.alter(bad, "UPDATE vault_tokens SET expires_at = ? WHERE id LIKE 'bad%'", 1)
		create(a, a.owners[0].Client, vault.TokenParams{ID: "good", Type: vault.TypeGeneric, Data: "x", ExpiresAt: a.clock.Now().Add(time.Hour)})
		a.clock.Advance(time.Hour)
		must.Same(a, "swept behind tokens", vault.Swept{Tokens: 1, Unopened: 2 * bad}, sweep(a, a.v))
	})
}

// An invented tombstone does not delete a tenant that has its keys.
func TestInventedTombstoneDeletesNothing(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		tenant := a.owners[0].TenantID()
		tok := create(a, a.owners[0].Client, aText("kept"))
		for _, under := range [][]byte{make([]byte, 16), tenant[:]} {
			a.alter(1, `INSERT INTO vault_records (tenant_id, kind, id, name, name_fold, key_version, created_at, rev, body)
				VALUES (?, 'tombstone', ?, '', '', 0, 1, 0, ?)`, under, tenant[:], []byte{})
		}
		must.Get(a.v.Sweep(a.Context()))(a)
		get(a, a.owners[0].Client, tok.ID)
		must.Same(a, "alarms", []string{"altered", "altered"}, a.heard.take())
	})
}
