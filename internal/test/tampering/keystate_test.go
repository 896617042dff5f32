//go:build !race

package tampering

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// deniable is a key whose holder can deny its use.
type deniable struct {
	vault.AEAD
	denied atomic.Bool
}

func (k *deniable) Encrypt(plaintext, associatedData []byte) ([]byte, error) {
	if k.denied.Load() {
		return nil, vault.ErrKeyDenied
	}
	return k.AEAD.Encrypt(plaintext, associatedData)
}

func (k *deniable) Decrypt(ciphertext, associatedData []byte) ([]byte, error) {
	if k.denied.Load() {
		return nil, vault.ErrKeyDenied
	}
	return k.AEAD.Decrypt(ciphertext, associatedData)
}

// words are the only messages about a key that an outage makes.
var words = regexp.MustCompile(`^Key (denied|available again(; unavailable since [0-9T:Z-]+)?)$`)

// keyMessages returns the messages about the key of the first tenant, oldest first,
// without those about changes of the key.
func (a *attacked) keyMessages() (all []string) {
	a.Helper()
	page := must.Get(a.owners[0].ListLogs(a.Context(), vault.ListLogsParams{Operation: vault.OperationKey, PageParams: vault.PageParams{Size: 100}}))(a)
	for _, e := range slices.Backward(page.Data) {
		if !keySet.MatchString(e.Message) {
			all = append(all, e.Message)
		}
	}
	return all
}

var keySet = regexp.MustCompile(`^Key (set|removed)`)

// serves reports whether the first tenant can be used.
func (a *attacked) serves() bool {
	_, err := a.owners[0].ListTokens(a.Context(), vault.ListTokensParams{})
	return err == nil
}

// outage denies a key, changes the database, and gives the key back. It fails the
// test unless the log then has an entry of the denial and one of the return, in
// words of the vault.
func (a *attacked) outage(what string, key *deniable, tamper func()) {
	a.Helper()
	denied := func(m string) bool { return m == "Key denied" }
	count := func(which bool) (n int) {
		for _, m := range a.keyMessages() {
			if words.MatchString(m) && denied(m) == which {
				n++
			}
		}
		return n
	}
	denials, returns := count(true), count(false)
	a.clock.Advance(time.Minute)
	key.denied.Store(true)
	eventually(a, what+": calls fail", func() bool { return !a.serves() })
	tamper()
	a.clock.Advance(time.Minute)
	key.denied.Store(false)
	eventually(a, what+": calls succeed", a.serves)
	eventually(a, what+": the log has the denial and the return", func() bool {
		a.clock.Advance(time.Minute) // a lease may have to end
		return count(true) > denials && count(false) > returns
	})
	for _, m := range a.keyMessages() {
		if !words.MatchString(m) {
			a.Errorf("%s: the vault has written %q", what, m)
		}
	}
}

// lies are bodies of records that a database writer might try.
func lies(at time.Time) []string {
	time := at.UTC().Format(time.RFC3339Nano)
	future := at.Add(1000 * 3600e9).UTC().Format("2006-01-02T15:04:05Z")
	return []string{
		fmt.Sprintf(`{"states":["rotated by the auditor; all is well"],"since":%q}`, time),
		fmt.Sprintf(`{"states":["denied"],"ended":%q}`, future),
		fmt.Sprintf(`{"owner":"0196c1a0-0000-7000-8000-000000000000","began":%q,"until":%q,"ended":%q}`, future, future, future),
		fmt.Sprintf(`{"state":"denied","at":%q}`, future),
		fmt.Sprintf(`{"state":"ok","at":%q}`, "1999-01-01T00:00:00Z"),
		"", "x",
	}
}

// No row about an outage of a key puts words into an entry or keeps an entry out.
// This holds for invented, older and missing rows, and for rows that a trigger
// protects from changes.
func TestRowsAboutKeysDoNotSpeak(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]string{"master": "key_state", "own": "own_key_state"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attack(t, func(a *attacked) {
				master, own := &deniable{AEAD: a.key}, &deniable{AEAD: vault.NewKey()}
				a.key = master
				a.config = func(c *vault.Config) {
					c.KeyAge, c.KeyGrace = 20*time.Millisecond, time.Hour
					c.OpenKey = func(context.Context, string) (vault.AEAD, error) { return own, nil }
				}
				a.node(nil)
				key := master
				if name == "own" {
					key = own
					must.Do(a, a.v.SetTenantKey(a.Context(), a.owners[0].TenantID(), "test://own"))
				}
				stored := func() []*logRow { return a.rows("vault_records", "WHERE kind = '"+kind+"'") }
				a.outage("the first", key, func() {})
				old := stored()
				if len(old) == 0 {
					a.Fatal("there is no record of an outage")
				}
				for _, lie := range lies(a.clock.Now()) {
					row := old[0].set(map[string]any{"body": []byte(lie)})
					a.outage("invented "+lie, key, func() { a.replace(stored(), []*logRow{row}) })
				}
				a.outage("older", key, func() { a.replace(stored(), old) })
				a.outage("deleted", key, func() { a.replace(stored(), nil) })
				a.outage("again", key, func() {})
				for _, event := range []string{"UPDATE", "INSERT"} {
					restore := a.drops(event, "vault_records", "kind = '"+kind+"'")
					a.outage("dropped "+event, key, func() {})
					restore()
				}
				const ahead = 24 * time.Hour // the clock of a node that then ends
				a.clock.Advance(ahead)
				a.outage("on a node ahead", key, func() {})
				a.clock.Advance(-ahead)
				future := stored()
				a.node(nil)
				a.outage("after a node ahead", key, func() {})
				a.outage("older, of a node ahead", key, func() { a.replace(stored(), future) })
			})
		})
	}
}

// failures counts the lines about an outage that was not entered everywhere.
type failures struct{ n atomic.Int64 }

func (f *failures) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte("the state of the key is not recorded")) {
		f.n.Add(1)
	}
	return len(line), nil
}

// A log that cannot be written keeps an outage from no other log, and does not make the
// vault enter it there again and again.
func TestOutageBesideALogThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	attack(t, func(a *attacked) {
		master, failed := &deniable{AEAD: a.key}, &failures{}
		a.key = master
		a.config = func(c *vault.Config) {
			c.KeyAge, c.KeyGrace, c.Logger = 20*time.Millisecond, time.Hour, slog.New(slog.NewTextHandler(failed, nil))
		}
		a.node(nil)
		shut := a.owners[1].TenantID()
		a.clock.Advance(time.Minute)
		master.denied.Store(true)
		eventually(a, "calls fail", func() bool { return !a.serves() })
		restore := a.refuses("vault_logs", fmt.Sprintf("tenant_id = %s AND NEW.message LIKE 'Key %%'", a.literal(shut[:])))
		master.denied.Store(false)
		eventually(a, "the log of one tenant was tried several times", func() bool {
			a.clock.Advance(time.Second)
			return failed.n.Load() >= 5
		})
		must.Same(a, "entries of another tenant", 2, len(a.keyMessages()))
		restore()
		a.owners[0], a.owners[1] = a.owners[1], a.owners[0]
		eventually(a, "the log that can be written again has the outage", func() bool { return len(a.keyMessages()) > 0 })
		must.Same(a, "entries of this tenant", 2, len(a.keyMessages()))
	})
}
