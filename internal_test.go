package vault

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/lib/pq" // the application's driver

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// Every method of a client that takes a context is a verb of the same name, and
// every verb is a method, or a part of other work.
func TestVerbsAreMethods(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "verbs.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // the Name of a verb by the name of its variable
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, "verb") {
			for _, e := range v.Values[0].(*ast.CompositeLit).Elts {
				if kv := e.(*ast.KeyValueExpr); kv.Key.(*ast.Ident).Name == "Name" {
					named[v.Names[0].Name] = strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
				}
			}
		}
		return true
	})
	client := reflect.TypeFor[*Owner]()
	for i := range client.NumMethod() {
		m := client.Method(i)
		if m.Type.NumIn() < 2 || m.Type.In(1).String() != "context.Context" {
			continue
		}
		if named["verb"+m.Name] != m.Name {
			t.Errorf("%s has no verb of its name", m.Name)
		}
	}
	inside := []string{"RoundTripper", "Work", "FindProxy"}
	for variable, name := range named {
		if _, ok := client.MethodByName(name); !ok && !slices.Contains(inside, name) {
			t.Errorf("%s names %s, which is no method", variable, name)
		}
	}
}

// No API key has a method that only the tenant itself may call.
func TestOwnerHasWhatKeysAreRefused(t *testing.T) {
	t.Parallel()
	client, owner := reflect.TypeFor[*Client](), reflect.TypeFor[*Owner]()
	only := 0
	for _, verb := range []core.Verb{verbAs, verbStats, verbListJobs, verbRetryJob, verbDiscardJob, verbTestRun} {
		_, ofClient := client.MethodByName(verb.Name)
		if _, ofOwner := owner.MethodByName(verb.Name); ofClient || !ofOwner || verb.Only == "" {
			t.Errorf("%s is a method of Client, or not of Owner", verb.Name)
		}
		only++
	}
	text, err := os.ReadFile("verbs.go")
	if err != nil {
		t.Fatal(err)
	}
	if all := strings.Count(string(text), "Only: "); all != only {
		t.Errorf("%d verbs are for the tenant only, and %d are tested", all, only)
	}
}

// The comment of API lists the methods of Client that API leaves out.
func TestAPIListsWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("api.go")
	if err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(text), "type API interface")
	api, client := reflect.TypeFor[API](), reflect.TypeFor[*Client]()
	for i := range client.NumMethod() {
		name := client.Method(i).Name
		_, has := api.MethodByName(name)
		if listed := strings.Contains(comment, "[Client."+name+"]"); listed == has {
			t.Errorf("%s is in API: %v; its comment says that it leaves it out: %v", name, has, listed)
		}
	}
}

// A token of a room has the fields and the JSON of a token of this package.
func TestTokensAreTheSame(t *testing.T) {
	t.Parallel()
	ours, theirs := reflect.TypeFor[Token](), reflect.TypeFor[tokens.Token]()
	if ours.NumField() != theirs.NumField() {
		t.Fatalf("%d fields, and %d in package tokens", ours.NumField(), theirs.NumField())
	}
	for i := range ours.NumField() {
		if o, th := ours.Field(i), theirs.Field(i); o.Name != th.Name || o.Tag != th.Tag {
			t.Errorf("field %s `%s`, and %s `%s` in package tokens", o.Name, o.Tag, th.Name, th.Tag)
		}
	}
	params, read := reflect.TypeFor[TokenParams](), reflect.TypeFor[tokens.Params]()
	for i := range params.NumField() {
		if _, ok := read.FieldByName(params.Field(i).Name); !ok || params.NumField() != read.NumField() {
			t.Errorf("package tokens lacks the parameter %s, or has others", params.Field(i).Name)
		}
	}
}

func TestCardDataValue(t *testing.T) {
	t.Parallel()
	for _, card := range []CardData{
		{},
		{Number: "4242424242424242"},
		{Number: "4242424242424242", ExpirationMonth: 2, ExpirationYear: 2031, CVC: "123"},
		{Number: "not \"valid\" \xff\u2028", ExpirationYear: -1, CVC: "<&>"},
	} {
		text, err := json.Marshal(card)
		if err != nil {
			t.Fatal(err)
		}
		var want, got CardData
		if err := json.Unmarshal(text, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(card.value().JSON(), &got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("the value of a card decodes to %+v, its JSON to %+v", got, want)
		}
		names := map[string]bool{}
		for _, m := range card.value().Members() {
			names[m.Name] = true
		}
		var members map[string]any
		if err := json.Unmarshal(text, &members); err != nil {
			t.Fatal(err)
		}
		for name := range members {
			if !names[name] {
				t.Errorf("the value of a card has no member %s", name)
			}
		}
		if len(names) != len(members) {
			t.Errorf("the value of a card has %d members, its JSON %d", len(names), len(members))
		}
	}
}

// sharedDatabases open a store, and a pool of the application on its database.
var sharedDatabases = map[string]func(t *testing.T) (Storage, *sql.DB){
	"sqlite": func(t *testing.T) (Storage, *sql.DB) {
		store, err := sqlite.OpenOptions(t.Context(), filepath.Join(t.TempDir(), "vault.db"), &sqlite.Options{WriteWait: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		db, err := store.OpenDB()
		if err != nil {
			t.Fatal(err)
		}
		return store, db
	},
	"postgres": func(t *testing.T) (Storage, *sql.DB) {
		address := pgtest.URL(t)
		store, err := postgres.OpenOptions(t.Context(), address, &postgres.Options{RetryFor: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		db, err := sql.Open("postgres", address)
		if err != nil {
			t.Fatal(err)
		}
		return store, db
	},
}

// sharedStore is a storage that an application can share.
type sharedStore interface {
	storage.Storage
	storage.TxStorage
}

// refusals tells of the first writes that could not be made.
type refusals struct {
	sharedStore
	refused chan struct{}
}

func (r *refusals) Write(ctx context.Context, ch *storage.Change) error {
	err := r.sharedStore.Write(ctx, ch)
	if errors.Is(err, storage.ErrUnavailable) {
		select {
		case r.refused <- struct{}{}:
		default:
		}
	}
	return err
}

// TestRotationWaitsForATransaction keeps a transaction open through a rotation,
// which is refused several writes meanwhile, and reads the token afterwards. The
// horizon is set to nothing, which only this package can do.
func TestRotationWaitsForATransaction(t *testing.T) {
	t.Parallel()
	for name, open := range sharedDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			opened, db := open(t)
			defer db.Close()
			store := &refusals{sharedStore: opened.(sharedStore), refused: make(chan struct{}, 2)}
			v, err := Open(ctx, store, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			v.core.Horizon = 0
			tenant, err := v.CreateTenant(ctx, "Acme")
			if err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			c := v.Tenant(tenant.ID)
			tok, err := c.InTx(tx).CreateToken(ctx, TokenParams{Type: TypeGeneric, Data: "secret"})
			if err != nil {
				t.Fatal(err)
			}
			var committed atomic.Bool
			early, rotated := make(chan bool, 1), make(chan error, 1)
			go func() {
				err := v.RotateDataKeys(ctx, tenant.ID, nil)
				early <- !committed.Load()
				rotated <- err
			}()
			for range cap(store.refused) {
				select {
				case <-early:
					t.Fatal("the rotation did not wait")
				case <-store.refused:
				}
			}
			committed.Store(true)
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if <-early {
				t.Error("the rotation ended before the transaction did")
			}
			if err := <-rotated; err != nil {
				t.Fatal(err)
			}
			if got, err := c.GetToken(ctx, tok.ID); err != nil || string(got.Data) != `"secret"` {
				t.Errorf("after the rotation: %v", err)
			}
			state, err := v.core.Tenants.Reload(ctx, tenant.ID)
			if err != nil || state.Ring.Retired() || state.Ring.Version() != 2 {
				t.Errorf("the ring is at version %d (%v), want 2 with the old key destroyed", state.Ring.Version(), err)
			}
		})
	}
}

// TestTransactionAcrossARotation begins to write after the keys that this node
// has read were replaced by another: what it seals is sealed again.
func TestTransactionAcrossARotation(t *testing.T) {
	t.Parallel()
	for name, open := range sharedDatabases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store, db := open(t)
			defer db.Close()
			v, err := Open(ctx, store, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1, KeyAge: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			v.core.Horizon = 0
			tenant, err := v.CreateTenant(ctx, "Acme")
			if err != nil {
				t.Fatal(err)
			}
			old, err := v.core.Tenants.Get(ctx, tenant.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := v.RotateDataKeys(ctx, tenant.ID, nil); err != nil {
				t.Fatal(err)
			}
			tx, err := db.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			c := v.Tenant(tenant.ID).InTx(tx)
			op := begun(t, c.Client)
			op.State = old // as a node has it that has not read them since
			rec, err := applications.Create(ctx, op.Op, &Application{ID: op.NewID(), TenantID: op.Tenant(), Name: "A", Type: ApplicationPrivate, CreatedAt: op.Now, hash: [32]byte{1}})
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if _, err := v.Tenant(tenant.ID).GetApplication(ctx, rec.ID); err != nil {
				t.Errorf("what was sealed under the old keys: %v", err)
			}
		})
	}
}
