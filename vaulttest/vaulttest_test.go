package vaulttest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestNewIsReadyForUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	v := vaulttest.New(t)
	for name, key := range map[string]string{"public": v.PublicKey, "private": v.PrivateKey, "management": v.ManagementKey} {
		must.Fail(v.Authenticate(ctx, key))(t, name+" key", nil)
	}
	expires := v.Clock.Now().Add(time.Hour)
	tok := must.Get(v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "secret", ExpiresAt: expires}))(t)
	v.Clock.Advance(time.Hour)
	must.Fail(v.Private.GetToken(ctx, tok.ID))(t, "after its expiry", vault.ErrNotFound)
}

// A later run opens the database of an earlier one.
func TestOpenStorageTwice(t *testing.T) {
	t.Parallel()
	address := pgtest.URL(t)
	var ids []string
	for range 2 {
		store := must.Get(postgres.Open(t.Context(), address))(t)
		v := vaulttest.OpenStorage(t, store, nil)
		ids = append(ids, v.Acme.ID.String())
	}
	if ids[0] == ids[1] {
		t.Errorf("tenants %q", ids)
	}
}

// ending is a test that ends before the test around it.
type ending struct {
	testing.TB
	later []func()
}

func (e *ending) Cleanup(f func()) { e.later = append(e.later, f) }

func (e *ending) end() {
	for _, f := range slices.Backward(e.later) {
		f()
	}
}

// Each vault of Postgres has a schema, which is dropped with the test.
func TestPostgresHasItsOwnSchema(t *testing.T) {
	t.Parallel()
	server, test := pgtest.Server(t), &ending{TB: t}
	db := must.Get(sql.Open("postgres", server))(t)
	defer func() { _ = db.Close() }()
	var schemas []string
	for range 2 {
		v := vaulttest.Postgres(test, server)
		address := must.Get(url.Parse(v.SchemaURL))(t)
		schemas = append(schemas, address.Query().Get("search_path"))
		tx := must.Get(v.DB.BeginTx(t.Context(), nil))(t)
		_, err := v.Owner.InTx(tx).CreateToken(t.Context(), vault.TokenParams{ID: "same-id", Type: vault.TypeGeneric, Data: "x"})
		if err := errors.Join(err, tx.Commit()); err != nil {
			t.Error(err)
		}
	}
	count := func(want int) {
		t.Helper()
		var n int
		err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_namespace WHERE nspname IN ($1, $2)", schemas[0], schemas[1]).Scan(&n)
		if err != nil || n != want {
			t.Errorf("%d schemas, want %d: %v", n, want, err)
		}
	}
	count(2)
	test.end()
	count(0)
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		vaulttest.New(b)
	}
}

// In a test, the code under test gets a client, and the test checks what it
// stored.
func Example() {
	t := &testing.T{} // provided by go test
	v := vaulttest.New(t)
	defer v.Close()

	tok := must.Get(v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCardNumber, Data: "4242424242424242"}))(t)
	fmt.Println(tok.Data)
	// Output: "XXXXXXXXXXXX4242"
}

// The code under test uses the values of the canary, and hands over what it wrote.
func ExampleNoLeaks() {
	t := &testing.T{} // provided by go test
	v := vaulttest.New(t)
	defer v.Close()

	vaulttest.NoLeaks(t, v, func(canary vaulttest.Canary) {
		canary.Logger().Info("paid", "card", canary.CardToken)
		canary.Text("the receipt", "paid with "+canary.CardToken)
	})
	fmt.Println(t.Failed())
	// Output: false
}

// A rotation does not wait, and loses no concurrent write.
func TestRotateKeysDuringWrites(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	stop, written := make(chan struct{}), make(chan []string)
	for n := range 2 {
		go func() {
			var ids []string
			defer func() { written <- ids }()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				tok, err := v.Owner.CreateToken(context.Background(), vault.TokenParams{ID: fmt.Sprintf("t-%d-%d", n, i), Type: vault.TypeGeneric, Data: i})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				ids = append(ids, tok.ID)
			}
		}()
	}
	for range 3 {
		must.Match(t, "rotate", v.RotateDataKeys(t.Context(), v.Acme.ID, nil), nil)
	}
	close(stop)
	for _, id := range append(<-written, <-written...) {
		must.Fail(v.Owner.GetToken(t.Context(), id))(t, id, nil)
	}
}
