package vaultsql_test

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "github.com/lib/pq" // the driver for the application's own connections

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultclient"
	"github.com/seed-72ea4aab/vault/vaultsql"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// databases returns the DSN of a new database of each kind.
var databases = map[string]func(testing.TB) string{
	"sqlite":   func(t testing.TB) string { return filepath.Join(t.TempDir(), "app.db") },
	"postgres": pgtest.URL,
}

// openStore opens a database for the vault, and for the application.
func openStore(ctx context.Context, dsn string) (vault.Storage, *sql.DB, error) {
	if strings.HasPrefix(dsn, "postgres://") {
		store, err := postgres.Open(ctx, dsn)
		if err != nil {
			return nil, nil, err
		}
		db, err := sql.Open("postgres", dsn)
		return store, db, err
	}
	store, err := sqlite.Open(ctx, dsn)
	if err != nil {
		return nil, nil, err
	}
	db, err := store.OpenDB()
	return store, db, err
}

// sqlVault is a vault and an application on one database.
type sqlVault struct {
	*vaulttest.Vault
	db     *sql.DB
	remote vault.API // the private application, over HTTP
}

func newSqlVault(t testing.TB, dsn string) *sqlVault {
	t.Helper()
	store, db, err := openStore(t.Context(), dsn)
	must.Do(t, err)
	w := &sqlVault{Vault: vaulttest.OpenStorage(t, store, nil), db: db}
	t.Cleanup(func() { _ = db.Close() })
	srv := httptest.NewServer(httpserver.Handler(w.Vault.Vault, nil))
	t.Cleanup(srv.Close)
	w.remote = must.Get(vaultclient.New(srv.URL, w.PrivateKey, nil))(t)
	return w
}

// kind is a type of field, with values for it.
type kind struct {
	typ    reflect.Type // type of the field
	tags   []string
	random func(r *rand.Rand) any // returns an Of
}

func kindOf[T any](random func(r *rand.Rand) T, tags ...string) kind {
	return kind{reflect.TypeFor[vaultsql.Of[T]](), append(tags, ""), func(r *rand.Rand) any {
		if r.IntN(5) == 0 {
			return vaultsql.Of[T]{}
		}
		return vaultsql.New(random(r))
	}}
}

// address is a type of an application.
type address struct {
	Street string            `json:"street"`
	Flat   *string           `json:"flat,omitempty"`
	Lines  []string          `json:"lines"`
	Extra  map[string]string `json:"extra"`
}

var kinds = []kind{
	kindOf(randomText, "index", "dedup", "container=/pii/high/", "container=/a/,container=/b/c/,dedup", "expires=1h", "dedup,expires=1h"),
	kindOf(func(r *rand.Rand) string { return randomDigits(r, 9) }, "type=social_security_number", "type=social_security_number,dedup"),
	kindOf(func(*rand.Rand) string { return number }, "type=card_number,index", "type=us_bank_account_number,dedup"),
	kindOf(func(r *rand.Rand) vault.CardData {
		return vault.CardData{Number: number, ExpirationMonth: r.IntN(13), ExpirationYear: 2030 + r.IntN(3)}
	}, "dedup", "index,expires=24h", "type=token"),
	kindOf(func(r *rand.Rand) []byte { return []byte(randomText(r)) }, "index", "dedup"),
	kindOf(func(r *rand.Rand) int { return r.IntN(100) }, "dedup"),
	kindOf(func(r *rand.Rand) float64 { return r.NormFloat64() }, "index"),
	kindOf(func(r *rand.Rand) bool { return r.IntN(2) == 0 }),
	kindOf(func(r *rand.Rand) []string { return []string{randomText(r), randomText(r)} }, "dedup"),
	kindOf(func(r *rand.Rand) map[string]any { return map[string]any{randomText(r): randomText(r), "n": nil} }),
	kindOf(func(r *rand.Rand) address {
		a := address{Street: randomText(r), Lines: []string{}, Extra: map[string]string{"k": randomText(r)}}
		if r.IntN(2) == 0 {
			a.Flat = new(string)
		}
		return a
	}, "index"),
}

func randomDigits(r *rand.Rand, n int) string {
	return fmt.Sprintf("%0*d", n, r.Int64N(1_000_000_000))
}

// randomText returns short texts, so that some are equal, some look like
// masks, and some contain special characters.
func randomText(r *rand.Rand) string {
	letters := []rune("XXXXab0 é日\U0001f600\"'\\{}<>&%_\n\t\u2028")
	text := make([]rune, r.IntN(8))
	for i := range text {
		text[i] = letters[r.IntN(len(letters))]
	}
	return string(text)
}

// randomType returns a struct type. Half of the fields are pointers, or in a
// nested struct.
func randomType(r *rand.Rand) (t reflect.Type, made []kind) {
	field := func(i int) reflect.StructField {
		k := kinds[r.IntN(len(kinds))]
		made = append(made, k)
		f := reflect.StructField{Name: fmt.Sprint("F", i), Type: k.typ, Tag: reflect.StructTag(fmt.Sprintf("vault:%q", k.tags[r.IntN(len(k.tags))]))}
		if r.IntN(4) == 0 {
			f.Type = reflect.PointerTo(f.Type)
		}
		return f
	}
	var fields []reflect.StructField
	for i := range 1 + r.IntN(6) {
		fields = append(fields, field(i))
	}
	if r.IntN(2) == 0 {
		nested := reflect.StructOf([]reflect.StructField{field(100), field(101)})
		fields = append(fields, reflect.StructField{Name: "Nested", Type: nested})
	}
	return reflect.StructOf(fields), made
}

// leaves returns the fields of a row that are columns, including those behind
// pointers.
func leaves(row reflect.Value) (all []reflect.Value) {
	for i := range row.NumField() {
		f := row.Field(i)
		switch {
		case f.Kind() == reflect.Pointer:
			if f.IsNil() {
				f.Set(reflect.New(f.Type().Elem()))
			}
			all = append(all, f.Elem())
		case row.Type().Field(i).Name == "Nested":
			all = append(all, leaves(f)...)
		default:
			all = append(all, f)
		}
	}
	return all
}

// TestSealWriteReadOpen checks that sealing, writing, reading and opening random
// structs is the identity.
func TestSealWriteReadOpen(t *testing.T) {
	t.Parallel()
	for name, dsn := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newSqlVault(t, dsn(t))
			seed := rand.Uint64()
			for round := range long.Rounds(6, 200) {
				r := rand.New(rand.NewPCG(seed, uint64(round)))
				if err := w.roundTrip(t, r, round); err != nil {
					t.Fatalf("seed %d, round %d: %v", seed, round, err)
				}
			}
		})
	}
}

// roundTrip writes and reads rows of a random type.
func (w *sqlVault) roundTrip(t *testing.T, r *rand.Rand, round int) error {
	typ, made := randomType(r)
	rows := reflect.MakeSlice(reflect.SliceOf(typ), 1+r.IntN(20), 20)
	for i := range rows.Len() {
		for j, f := range leaves(rows.Index(i)) {
			f.Set(reflect.ValueOf(made[j].random(r)))
		}
	}
	want := reflect.MakeSlice(rows.Type(), rows.Len(), rows.Len())
	reflect.Copy(want, rows)
	reader := vault.API(w.Private)
	if round%2 == 0 {
		reader = w.remote
	}
	got, err := w.store(t.Context(), rows, len(made), fmt.Sprint("rows", round), round%2 == 0)
	if err == nil {
		err = vaultsql.Open(t.Context(), reader, got.Interface())
	}
	if err != nil {
		return fmt.Errorf("%v: %w", typ, err)
	}
	for i := range rows.Len() {
		before, sealed, after := leaves(want.Index(i)), leaves(rows.Index(i)), leaves(got.Index(i))
		for j := range after {
			for _, f := range []reflect.Value{sealed[j], after[j]} {
				if diff := cmp.Diff(valueOf(before[j]), valueOf(f)); diff != "" {
					return fmt.Errorf("%v: row %d, field %d (-want +got):\n%s", typ, i, j, diff)
				}
			}
			if before[j].MethodByName("IsZero").Call(nil)[0].Bool() != after[j].MethodByName("IsZero").Call(nil)[0].Bool() {
				return fmt.Errorf("%v: row %d, field %d is absent, or is not", typ, i, j)
			}
		}
	}
	return nil
}

// valueOf calls Get.
func valueOf(of reflect.Value) []any {
	out := of.MethodByName("Get").Call(nil)
	return []any{out[0].Interface(), out[1].Interface()}
}

// store seals rows and writes them to a table in one transaction, or seals
// them over HTTP before it. Then it reads them back.
func (w *sqlVault) store(ctx context.Context, rows reflect.Value, columns int, table string, remote bool) (reflect.Value, error) {
	names := make([]string, columns)
	for i := range names {
		names[i] = fmt.Sprint("c", i)
	}
	list := strings.Join(names, " text, ") + " text"
	if _, err := w.db.ExecContext(ctx, "CREATE TABLE "+table+" (n integer, "+list+")"); err != nil {
		return rows, err
	}
	if remote { // before the transaction, which would block the vault's writes to SQLite
		if err := vaultsql.Seal(ctx, w.remote, rows.Interface()); err != nil {
			return rows, err
		}
	}
	tx, err := w.db.BeginTx(ctx, nil)
	if err != nil {
		return rows, err
	}
	defer func() { _ = tx.Rollback() }()
	if err := vaultsql.Seal(ctx, w.Private.InTx(tx), rows.Interface()); err != nil {
		return rows, err
	}
	for i := range rows.Len() {
		args, marks := []any{i}, "$1"
		for j, f := range leaves(rows.Index(i)) {
			args, marks = append(args, f.Interface()), fmt.Sprint(marks, ", $", j+2)
		}
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES ("+marks+")", args...); err != nil {
			return rows, err
		}
	}
	if err := tx.Commit(); err != nil {
		return rows, err
	}
	return w.load(ctx, rows.Type(), strings.Join(names, ", "), table)
}

// load reads the rows of a table.
func (w *sqlVault) load(ctx context.Context, typ reflect.Type, columns, table string) (reflect.Value, error) {
	out := reflect.MakeSlice(typ, 0, 20)
	found, err := w.db.QueryContext(ctx, "SELECT "+columns+" FROM "+table+" ORDER BY n")
	if err != nil {
		return out, err
	}
	defer func() { _ = found.Close() }() // found.Err reports errors
	for found.Next() {
		row := reflect.New(typ.Elem()).Elem()
		var dst []any
		for _, f := range leaves(row) {
			dst = append(dst, f.Addr().Interface())
		}
		if err := found.Scan(dst...); err != nil {
			return out, err
		}
		out = reflect.Append(out, row)
	}
	return out, found.Err()
}
