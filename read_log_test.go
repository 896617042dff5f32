package vault_test

import (
	"context"
	"errors"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// readLogger is a database that reads and logs in one step, and keeps what it
// was asked for.
type readLogger struct {
	*spy
	asked []storage.Reading
	err   error
}

func (s *readLogger) ReadToken(ctx context.Context, r storage.Reading) (storage.Token, error) {
	s.asked = append(s.asked, r)
	if s.err != nil {
		return storage.Token{}, s.err
	}
	rows, err := s.Storage.Tokens(ctx, r.Tenant, []string{r.ID})
	if err != nil || len(rows) == 0 {
		return storage.Token{}, errors.Join(err, storage.ErrNotFound)
	}
	r.Entry.EntityType = rows[0].Type
	return rows[0], s.Storage.Write(ctx, &storage.Change{Tenant: r.Tenant, Logs: []storage.Log{r.Entry}, Relaxed: true})
}

func readLogged(t *testing.T, cfg *vault.Config) (*vaulttest.Vault, *readLogger) {
	t.Helper()
	database, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	store := &readLogger{spy: &spy{Storage: database}}
	return vaulttest.OpenStorage(t, store, cfg), store
}

// A client that may read every token has its read and the entry of it made in
// one step, and the entry is the one that others get.
func TestReadAndLogInOneStep(t *testing.T) {
	t.Parallel()
	v, store := readLogged(t, nil)
	tok := create(t, v.Private, vault.TokenParams{Type: vault.Card, Data: vault.CardData{Number: visa}})
	store.before = func(call string, _ *storage.Change) error {
		t.Errorf("%s was called beside ReadToken", call)
		return nil
	}
	same(t, "token", get(t, v.Private, tok.ID).ID, tok.ID)
	store.before = nil
	log := entries(t, v, vault.ListLogsParams{EntityID: tok.ID})
	if len(log) != 2 || log[1].Operation != "read" || log[1].EntityType != "card" || log[1].Message != "Token read" {
		t.Errorf("the log of the token: %+v", log)
	}
	if len(store.asked) != 1 {
		t.Errorf("%d readings, want 1", len(store.asked))
	}
}

// Where the token decides whether it may be read at all, where the entry must be
// synced, and where it is to be committed with something else, the token is read
// first.
func TestReadThenLog(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		cfg  *vault.Config
		read func(t *testing.T, v *vaulttest.Vault, id string)
	}{
		"rules on containers": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			get(t, private(t, v, rule(1, "/general/", vault.Reveal, "token:read")), id)
			_, err := private(t, v, rule(1, "/pci/", vault.Reveal, "token:read")).GetToken(t.Context(), id)
			wantError(t, "get", err, vault.ErrForbidden)
		}},
		"strict": {cfg: &vault.Config{StrictReadLogs: true}, read: func(t *testing.T, v *vaulttest.Vault, id string) {
			get(t, v.Private, id)
		}},
		"once": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			_, _, err := v.Private.Once(t.Context(), vault.OnceKey{Scope: "s", Key: "k"},
				func(ctx context.Context, c *vault.Client) (vault.Answer, error) {
					_, err := c.GetToken(ctx, id)
					return vault.Answer{Status: 200, Body: []byte("1")}, err
				})
			if err != nil {
				t.Fatal(err)
			}
		}},
		"no possible id": {read: func(t *testing.T, v *vaulttest.Vault, id string) {
			get(t, private(t, v, rule(1, "/general/", vault.Reveal, "token:read")), id)
			_, err := v.Private.GetToken(t.Context(), "a\x00b")
			wantError(t, "get", err, vault.ErrNotFound)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v, store := readLogged(t, test.cfg)
			tok := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: "x"})
			test.read(t, v, tok.ID)
			if len(store.asked) > 0 {
				t.Errorf("ReadToken was called %d times", len(store.asked))
			}
			reads := 0
			for _, e := range entries(t, v, vault.ListLogsParams{EntityID: tok.ID}) {
				if e.Operation == "read" {
					reads++
				}
			}
			same(t, "entries of reads", reads, 1)
		})
	}
}

// Who may not see a token, or asks for none, gets the errors that others get.
func TestReadAndLogErrors(t *testing.T) {
	t.Parallel()
	v, store := readLogged(t, nil)
	_, err := v.Private.GetToken(t.Context(), "missing")
	wantError(t, "get", err, vault.ErrNotFound)
	store.err = errDown
	_, err = v.Private.GetToken(t.Context(), "missing")
	wantError(t, "get", err, errDown)
	same(t, "readings", len(store.asked), 2)
}
