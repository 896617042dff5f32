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

	"github.com/google/go-cmp/cmp"
	_ "github.com/lib/pq" // the application's driver

	"github.com/seed-72ea4aab/vault/internal/applications"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/pgtest"
	"github.com/seed-72ea4aab/vault/internal/relay"
	"github.com/seed-72ea4aab/vault/internal/runs"
	"github.com/seed-72ea4aab/vault/internal/sealed"
	"github.com/seed-72ea4aab/vault/internal/tenants"
	"github.com/seed-72ea4aab/vault/internal/tokens"
	"github.com/seed-72ea4aab/vault/internal/verbs"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// Every method of a client that takes a context is a verb of the same name, and
// every verb is a method, or a part of other work.
func TestVerbsAreMethods(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "internal/verbs/verbs.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]string{} // the Name of a verb by the name of its variable
	ast.Inspect(file, func(n ast.Node) bool {
		if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].IsExported() {
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
		if named[m.Name] != m.Name {
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
	for _, verb := range []core.Verb{verbs.As, verbs.Stats, verbs.ListJobs, verbs.RetryJob, verbs.DiscardJob, verbs.TestRun} {
		_, ofClient := client.MethodByName(verb.Name)
		if _, ofOwner := owner.MethodByName(verb.Name); ofClient || !ofOwner || verb.Only == "" {
			t.Errorf("%s is a method of Client, or not of Owner", verb.Name)
		}
		only++
	}
	text, err := os.ReadFile("internal/verbs/verbs.go")
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

// A type of a room has the fields and the JSON of its type in this package.
func TestRoomsHaveTheSameTypes(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]reflect.Type{
		{reflect.TypeFor[Token](), reflect.TypeFor[tokens.Token]()},
		{reflect.TypeFor[Application](), reflect.TypeFor[applications.Application]()},
		{reflect.TypeFor[ApplicationParams](), reflect.TypeFor[applications.Params]()},
		{reflect.TypeFor[Reactor](), reflect.TypeFor[runs.Reactor]()},
		{reflect.TypeFor[ReactorParams](), reflect.TypeFor[runs.ReactorParams]()},
		{reflect.TypeFor[Proxy](), reflect.TypeFor[relay.Proxy]()},
		{reflect.TypeFor[ProxyParams](), reflect.TypeFor[relay.Params]()},
		{reflect.TypeFor[TenantParams](), reflect.TypeFor[tenants.Params]()},
		{reflect.TypeFor[TenantSettings](), reflect.TypeFor[core.TenantSettings]()},
	} {
		if diff := cmp.Diff(fieldsAndTags(pair[0]), fieldsAndTags(pair[1])); diff != "" {
			t.Errorf("%s and %s (-root +room):\n%s", pair[0], pair[1], diff)
		}
	}
	params, read := reflect.TypeFor[TokenParams](), reflect.TypeFor[tokens.Params]()
	for i := range params.NumField() {
		if _, ok := read.FieldByName(params.Field(i).Name); !ok || params.NumField() != read.NumField() {
			t.Errorf("package tokens lacks the parameter %s, or has others", params.Field(i).Name)
		}
	}
}

// fieldsAndTags lists the exported fields of a type with their tags.
func fieldsAndTags(typ reflect.Type) (all []string) {
	for f := range typ.Fields() {
		if f.IsExported() {
			all = append(all, f.Name+" "+string(f.Tag))
		}
	}
	return all
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
			rec, err := applications.Create(ctx, op, applications.Params{Name: "A", Type: string(ApplicationPrivate), Permissions: []string{string(PermissionTokenRead)}})
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

// A row of an earlier version has no columns in its body. They are computed again,
// and a row with other columns is altered.
func TestColumnsOfOlderRowsAreComputedAgain(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), ":memory:")
	if err != nil {
		t.Fatal(err)
	}
	v, err := Open(t.Context(), store, NewKey(), &Config{SweepEvery: -1, WorkEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	c, yes := v.Tenant(tenant.ID), true
	for name, change := range map[string]func(*storage.Token){
		"nothing":     func(*storage.Token) {},
		"fingerprint": func(row *storage.Token) { row.Fingerprint[0]++ },
		"expression":  func(row *storage.Token) { row.Expression[0]++ },
		"dedup":       func(row *storage.Token) { row.Dedup[0]++ },
		"set":         func(row *storage.Token) { row.Set[0]++ },
	} {
		p := TokenParams{
			ID: "of-" + name, Type: TypeGeneric, Data: name, Metadata: map[string]string{"k": "v"},
			FingerprintExpression: "{{ data | upcase }}", DeduplicateToken: &yes,
		}
		if _, err := c.CreateToken(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		err := runErr(t.Context(), c.Client, &verbs.GetToken, func(ctx context.Context, op *core.Op) error {
			return rewrite(ctx, op, p.ID, change)
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.GetToken(t.Context(), p.ID); errors.Is(err, fault.ErrAltered) == (name == "nothing") {
			t.Errorf("another %s: %v", name, err)
		}
	}
	page, err := c.SearchTokens(t.Context(), SearchTokensParams{Query: `metadata.k:"v"`})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != "of-nothing" {
		t.Errorf("a search finds %+v, %v", page, err)
	}
}

// rewrite writes a token as an earlier version did, with changed columns.
func rewrite(ctx context.Context, op *core.Op, id string, change func(*storage.Token)) error {
	row, err := tokens.Row(ctx, op, id)
	if err != nil {
		return err
	}
	t, err := tokens.Open(ctx, op, row)
	if err != nil {
		return err
	}
	hashes := t.Hashes
	t.Columns, t.Hashes = [16]byte{}, nil
	update := storage.TokenUpdate{Rev: row.Rev, OldSet: row.Set, Token: *row}
	change(&update.Token)
	for ; len(hashes) > 0; hashes = hashes[16:] {
		update.Token.Hashes = append(update.Token.Hashes, storage.Hash(hashes))
	}
	var parts sealed.Parts
	place := sealed.TokenPlace(row, &parts)
	if update.Token.Body, err = op.Seal(&place, t.Encode(nil)); err != nil {
		return err
	}
	ch := op.Change()
	ch.UpdateTokens = []storage.TokenUpdate{update}
	return op.Write(ctx, ch)
}
