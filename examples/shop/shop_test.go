package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// Environment of a child process: the database, and its key.
const (
	childDB  = "VAULT_SHOP_DB"
	childKey = "VAULT_SHOP_KEY"
)

func TestMain(m *testing.M) {
	if db := os.Getenv(childDB); db != "" {
		if err := sellAndStop(db); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

var databases = map[string]func(t *testing.T) string{
	"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "shop.db") },
	"postgres": func(t *testing.T) string { return pgtest.URL(t) },
}

func TestRun(t *testing.T) {
	t.Parallel()
	databases := map[string]func(t *testing.T) string{
		"memory": func(*testing.T) string { return ":memory:" }, "sqlite": databases["sqlite"], "postgres": databases["postgres"],
	}
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			must.Do(t, run(t.Context(), dsn(t), filepath.Join(t.TempDir(), "shop.key"), &out))
			want := `charged  {"number":"XXXXXXXXXXXX4242"} ch_4242
declined {"number":"XXXXXXXXXXXX0002"}
sold out
2 orders, 1 cards
`
			must.Same(t, "output", want, out.String())
		})
	}
}

func TestPersistentDatabaseNeedsAKey(t *testing.T) {
	t.Parallel()
	err := run(t.Context(), filepath.Join(t.TempDir(), "shop.db"), "", &strings.Builder{})
	must.Match(t, "the shop opened without a key", err, must.Text("needs -key"))
}

// TestShopLeaksNothing searches for the card of a customer in everything
// that the shop writes.
func TestShopLeaksNothing(t *testing.T) {
	t.Parallel()
	for name, newDSN := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			gateway := httptest.NewServer(fakeGateway{})
			defer gateway.Close()
			s := must.Get(open(t.Context(), dsn, vault.NewKey(), gateway.URL))(t)
			defer s.close()
			vaulttest.NoLeaks(t, &vaulttest.Vault{Vault: s.vault, Owner: s.cards, DB: s.db}, func(canary vaulttest.Canary) {
				err := errors.Join(s.stock(t.Context(), "book", 1999, 1), sell(t.Context(), s, canary.Card, canary.Writer("output")))
				_, refused := s.buy(t.Context(), "pen", vault.CardData{Number: canary.SSN})
				canary.Value("errors", []error{err, refused})
				if name == "sqlite" {
					canary.Files(filepath.Dir(dsn))
				}
			})
		})
	}
}

// sellAndStop sells a book. It stops in the middle of the second order, after
// the token is written and before the order is.
func sellAndStop(db string) error {
	ctx := context.Background()
	key, err := vault.ParseKey(os.Getenv(childKey))
	if err != nil {
		return err
	}
	s, err := open(ctx, db, key, "https://gateway.example")
	if err != nil {
		return err
	}
	if err := s.stock(ctx, "book", 1999, 10); err != nil {
		return err
	}
	card := vault.CardData{Number: "4242424242424242"}
	if _, err := s.buy(ctx, "book", card); err != nil {
		return err
	}
	s.between = func() {
		fmt.Println("between")
		select {} // until it is killed
	}
	_, err = s.buy(ctx, "book", card)
	return errors.Join(err, errors.New("nothing killed it"))
}

// TestKillBetweenTokenAndOrder kills the shop after the token of a card is written and
// before its order is, and counts both.
func TestKillBetweenTokenAndOrder(t *testing.T) {
	t.Parallel()
	for name, newDSN := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, key := newDSN(t), vault.NewKey()
			for times := 1; times <= 2; times++ {
				kill(t, dsn, key)
				s := must.Get(open(t.Context(), dsn, key, "https://gateway.example"))(t)
				orders, cards, err := s.count(t.Context())
				if err != nil || orders != times || cards != times {
					t.Errorf("%d orders and %d cards after kill %d (%v)", orders, cards, times, err)
				}
				must.Do(t, s.close())
			}
		})
	}
}

// kill runs a child until it is between the two, and kills it.
func kill(t *testing.T, dsn string, key *vault.Key) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDB+"="+dsn, childKey+"="+key.Text())
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "between\n" {
		t.Errorf("the child said %q (%v)", line, err)
	}
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
}
