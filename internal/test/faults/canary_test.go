package faults

import (
	"bytes"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// forms returns the ways in which a value could appear in a file.
func forms(value string) [][]byte {
	if value == "" {
		return nil
	}
	return [][]byte{[]byte(value), []byte(hex.EncodeToString([]byte(value))),
		[]byte(base64.StdEncoding.EncodeToString([]byte(value))), []byte(base64.RawStdEncoding.EncodeToString([]byte(value)))}
}

func expectNone(t *testing.T, where string, content []byte, secrets map[string]string) {
	t.Helper()
	for name, value := range secrets {
		found := forms(value)
		if name == "cvc" || name == "patched cvc" {
			// Any file of this size contains these four digits by chance, but
			// not between the delimiters around a value: in JSON, in a row, or
			// in dumped bytes.
			found = [][]byte{[]byte(`"` + value + `"`), []byte("," + value + ","), []byte(`\x` + hex.EncodeToString([]byte(value)) + ",")}
		}
		for _, form := range found {
			if bytes.Contains(content, form) {
				t.Errorf("%s contains the %s", where, name)
			}
		}
	}
}

func TestNoPlaintextInTheSQLiteFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log syncBuffer
	key := vault.NewKey()
	v := openVault(t, filepath.Join(dir, "vault.db"), key, talkative(&log))
	secrets := plantCanaries(t, v, key)
	checkFiles := func() {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, f := range files {
			content := must.Get(os.ReadFile(f))(t)
			expectNone(t, filepath.Base(f), content, secrets)
		}
	}
	checkFiles() // including the WAL
	db := must.Get(sql.Open("sqlite", filepath.Join(dir, "vault.db")))(t)
	expectNoneInTables(t, db, "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'", secrets)
	must.Do(t, db.Close())
	must.Get(v.Sweep(t.Context()))(t)
	must.Do(t, v.Close())
	checkFiles()
	expectNone(t, "log", log.Bytes(), secrets)
}

func TestNoPlaintextInThePostgresTables(t *testing.T) {
	t.Parallel()
	onEach(t, servers, func(t *testing.T, _, dsn string) {
		key := vault.NewKey()
		var log syncBuffer
		v := openVault(t, dsn, key, talkative(&log))
		secrets := plantCanaries(t, v, key)
		db := must.Get(sql.Open("postgres", dsn))(t)
		defer db.Close()
		expectNoneInTables(t, db, "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = current_schema()", secrets)
		expectNone(t, "log", log.Bytes(), secrets)
	})
}

// talkative returns a configuration that logs everything. Its code and its
// callbacks fail.
func talkative(log io.Writer) *vault.Config {
	return &vault.Config{
		SweepEvery: -1, WorkEvery: -1, Runtime: failing{}, Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

// expectNoneInTables checks every column of every table.
func expectNoneInTables(t *testing.T, db *sql.DB, names string, secrets map[string]string) {
	t.Helper()
	tables := tableNames(t, db, names)
	if len(tables) < 5 {
		t.Fatalf("only %d tables: wrong schema?", len(tables))
	}
	for _, table := range tables {
		expectNone(t, table, dump(t, db, table), secrets)
	}
}

// dump returns the rows of a table as text. Byte columns appear twice: in
// hexadecimal and unchanged.
func dump(t *testing.T, db *sql.DB, table string) []byte {
	t.Helper()
	rows := must.Get(db.QueryContext(t.Context(), "SELECT * FROM "+table))(t)
	defer rows.Close()
	columns := must.Get(rows.Columns())(t)
	var content bytes.Buffer
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		into[i] = &values[i]
	}
	for rows.Next() {
		must.Do(t, rows.Scan(into...))
		for _, value := range values {
			if raw, ok := value.([]byte); ok {
				fmt.Fprintf(&content, `,\x%x,%s`, raw, raw)
				continue
			}
			fmt.Fprintf(&content, ",%v,", value)
		}
		content.WriteByte('\n')
	}
	must.Do(t, rows.Err())
	return content.Bytes()
}

func tableNames(t *testing.T, db *sql.DB, query string) []string {
	t.Helper()
	rows := must.Get(db.QueryContext(t.Context(), query))(t)
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		must.Do(t, rows.Scan(&name))
		names = append(names, name)
	}
	must.Do(t, rows.Err())
	return names
}

// TestErrorsCarryNoValues sends bad input that contains a canary and checks the
// errors.
func TestErrorsCarryNoValues(t *testing.T) {
	t.Parallel()
	const canary = "canary-input-8c8c"
	v := openVault(t, filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), &vault.Config{SweepEvery: -1})
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	c := v.Tenant(tenant.ID)
	ctx := t.Context()
	past := time.Now().Add(-time.Hour)
	create := func(p vault.TokenParams) func() error {
		return func() error { return must.Err(c.CreateToken(ctx, p)) }
	}
	document := func(text string) func() error {
		return func() error { return must.Err(c.Tokenize(ctx, vault.JSON(text))) }
	}
	for name, do := range map[string]func() error{
		"card number":       create(vault.TokenParams{Type: vault.TypeCard, Data: map[string]string{"number": canary}}),
		"cvc":               create(vault.TokenParams{Type: vault.TypeCard, Data: map[string]string{"number": "4242424242424242", "cvc": canary}}),
		"bank":              create(vault.TokenParams{Type: vault.TypeBank, Data: map[string]string{"routing_number": canary, "account_number": canary}}),
		"ssn":               create(vault.TokenParams{Type: vault.TypeSocialSecurityNumber, Data: canary}),
		"type":              create(vault.TokenParams{Type: canary, Data: canary}),
		"id":                create(vault.TokenParams{ID: canary + "/", Type: vault.TypeGeneric, Data: canary}),
		"id is data":        create(vault.TokenParams{ID: canary, Type: vault.TypeGeneric, Data: canary}),
		"mask filter":       create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, Mask: "{{ data | to_number }}"}),
		"mask json":         create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, Mask: "{{ data | json: '$.x' }}"}),
		"fingerprint":       create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, FingerprintExpression: "{{ data | divided_by: 2 }}"}),
		"index":             create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, SearchIndexes: []string{"{{ data | date: '%Y' }}"}}),
		"container":         create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, Containers: []string{canary}}),
		"metadata":          create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, Metadata: map[string]string{"k": canary + "\x00"}}),
		"expires_at":        create(vault.TokenParams{Type: vault.TypeGeneric, Data: canary, ExpiresAt: past}),
		"broken json":       document(`{"a": "` + canary + `", "b": ` + canary + `}`),
		"cut off":           document(`["` + canary),
		"duplicate key":     document(`{"a": "` + canary + `", "a": 1}`),
		"request in array":  document(`[{"type":"card","data":{"number":"` + canary + `"}}]`),
		"unknown attribute": document(`{"type":"token","data":"` + canary + `","mask_it":"` + canary + `"}`),
		"expression":        func() error { return must.Err(c.Detokenize(ctx, "{{ "+canary+" | nope }}")) },
		"query":             func() error { return must.Err(c.SearchTokens(ctx, vault.SearchTokensParams{Query: "data:[" + canary})) },
		"nonce": func() error {
			return c.AuthorizeSession(ctx, vault.SessionGrant{Nonce: canary, Permissions: []vault.Permission{"token:create"}})
		},
		"api key":  func() error { return must.Err(v.Authenticate(ctx, canary)) },
		"token id": func() error { return must.Err(c.GetToken(ctx, canary)) },
		"patch":    func() error { return must.Err(c.PatchToken(ctx, canary, vault.JSON(`{"data":`+canary))) },
		"application": func() error {
			return must.Err(c.PatchApplication(ctx, uuid.New(), vault.JSON(`{"type":"`+canary+`"}`)))
		},
		"once": func() error {
			_, _, err := c.Once(ctx, vault.IdempotencyKey{Key: canary + "\n"}, nil)
			return err
		},
		"master key": func() error { return must.Err(vault.ParseKey(canary)) },
	} {
		err := do()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error contains the value", name)
		}
	}
}

// syncBuffer is a buffer for concurrent use by a logger and a test.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) Bytes() []byte {
	b.mu.Lock()
	defer b.mu.Unlock()
	return bytes.Clone(b.buf.Bytes())
}
