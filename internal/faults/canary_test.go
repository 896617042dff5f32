package faults

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// canaries are values that must be found nowhere but in answers.
var canaries = map[string]string{
	"token data":         "canary-data-5f1e",
	"key in data":        "canary-name-99ab",
	"card number":        "4000056655665556",
	"cvc":                "9173",
	"account number":     "73190046218",
	"social security":    "536-22-8726",
	"metadata":           "canary-metadata-c3d9",
	"patched data":       "canary-patch-77aa",
	"index value":        "canary-index-0b0b",
	"mask":               "canary-mask-b7b7",
	"configuration":      "canary-config-1d1d",
	"reactor code":       "canary-code-e2e2",
	"idempotent answer":  "canary-answer-f8f8",
	"webhook secret":     "", // filled in by the test
	"public key":         "",
	"session key":        "",
	"session nonce":      "",
	"proxy key":          "",
	"regenerated key":    "",
	"master key":         "",
	"tokenized document": "canary-document-4a4a",
}

// plantCanaries stores every canary in every way there is, and returns them
// together with the secrets that the vault made itself.
func plantCanaries(t *testing.T, v *vault.Vault, key *vault.Key) map[string]string {
	t.Helper()
	ctx := t.Context()
	found := map[string]string{}
	for name, value := range canaries {
		found[name] = value
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	tenant, err := v.CreateTenant(ctx, "Acme")
	must(err)
	c := v.Tenant(tenant.ID)
	found["master key"] = key.Text()
	found["webhook secret"] = tenant.WebhookSecret

	for _, p := range []vault.TokenParams{
		{Type: vault.Generic, Data: map[string]string{canaries["key in data"]: canaries["token data"]}, Mask: canaries["mask"]},
		{Type: vault.Generic, Data: canaries["index value"], SearchIndexes: []string{"{{ data }}"}, Metadata: map[string]string{"k": canaries["metadata"]}},
		{Type: vault.Card, Data: vault.CardData{Number: canaries["card number"], CVC: canaries["cvc"]}},
		{Type: vault.Bank, Data: vault.BankData{RoutingNumber: "021000021", AccountNumber: canaries["account number"]}},
		{Type: vault.SocialSecurityNumber, Data: canaries["social security"]},
	} {
		tok, err := c.CreateToken(ctx, p)
		must(err)
		_, err = c.GetToken(ctx, tok.ID)
		must(err)
		_, err = c.Detokenize(ctx, "{{ "+tok.ID+" }}")
		must(err)
	}
	tok, err := c.CreateToken(ctx, vault.TokenParams{Type: vault.Generic, Data: "x"})
	must(err)
	_, err = c.UpdateToken(ctx, tok.ID, vault.JSON(fmt.Sprintf(`{"data":%q}`, canaries["patched data"])))
	must(err)
	_, err = c.Tokenize(ctx, map[string]any{"a": []string{canaries["tokenized document"]}})
	must(err)
	_, err = c.SearchTokens(ctx, vault.SearchTokensParams{Query: "data:" + canaries["index value"]})
	must(err)
	plantKeys(t, v, c, found)
	_, _, err = c.Once(ctx, vault.OnceKey{Scope: "POST /x", Key: "k"}, func(context.Context, *vault.Client) (vault.Answer, error) {
		return vault.Answer{Status: 201, Body: []byte(canaries["idempotent answer"])}, nil
	})
	must(err)
	return found
}

func plantKeys(t *testing.T, v *vault.Vault, c *vault.Client, found map[string]string) {
	t.Helper()
	ctx := t.Context()
	public, err := c.CreateApplication(ctx, vault.ApplicationParams{Name: "p", Type: vault.Public, Permissions: []string{"token:create"}})
	if err != nil {
		t.Fatal(err)
	}
	found["public key"] = public.Key
	pc, err := v.Authenticate(ctx, public.Key)
	if err != nil {
		t.Fatal(err)
	}
	s, err := pc.CreateSession(ctx)
	if err != nil {
		t.Fatal(err)
	}
	found["session key"], found["session nonce"] = s.SessionKey, s.Nonce
	if err := c.AuthorizeSession(ctx, vault.Grant{Nonce: s.Nonce, Permissions: []string{"token:create"}}); err != nil {
		t.Fatal(err)
	}
	again, err := c.RegenerateKey(ctx, public.ID)
	if err != nil {
		t.Fatal(err)
	}
	found["regenerated key"] = again.Key
	configuration := map[string]string{"SECRET": canaries["configuration"]}
	if _, err := c.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: "// " + canaries["reactor code"], Configuration: configuration}); err != nil {
		t.Fatal(err)
	}
	proxy, err := c.CreateProxy(ctx, vault.ProxyParams{Name: "x", DestinationURL: "https://example.com/", Configuration: configuration})
	if err != nil {
		t.Fatal(err)
	}
	found["proxy key"] = proxy.Key
}

// forms returns the ways in which a value could stand in a file.
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
		if name == "cvc" {
			continue // four digits stand in any file of this size; its row is sealed like all others
		}
		for _, form := range forms(value) {
			if bytes.Contains(content, form) {
				t.Errorf("%s: found the %s", where, name)
			}
		}
	}
}

func TestNoPlaintextInTheSQLiteFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var log syncBuffer
	key := vault.NewKey()
	v := openVault(t, filepath.Join(dir, "vault.db"), key, &vault.Config{SweepEvery: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	secrets := plantCanaries(t, v, key)
	checkFiles := func() {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("no files: %v", err)
		}
		for _, f := range files {
			content, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			expectNone(t, filepath.Base(f), content, secrets)
		}
	}
	checkFiles() // with the WAL
	if _, err := v.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	checkFiles()
	expectNone(t, "log", log.Bytes(), secrets)
}

func TestNoPlaintextInThePostgresTables(t *testing.T) {
	t.Parallel()
	dsn := backends["postgres"](t)
	key := vault.NewKey()
	v := openVault(t, dsn, key, &vault.Config{SweepEvery: -1})
	secrets := plantCanaries(t, v, key)
	db, err := sql.Open("postgres", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range tableNames(t, db) {
		rows, err := db.QueryContext(t.Context(), "SELECT t::text FROM "+table+" t")
		if err != nil {
			t.Fatal(err)
		}
		var content bytes.Buffer
		for rows.Next() {
			var row string
			if err := rows.Scan(&row); err != nil {
				t.Fatal(err)
			}
			content.WriteString(row + "\n")
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		expectNone(t, table, content.Bytes(), secrets)
	}
}

func tableNames(t *testing.T, db *sql.DB) []string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT quote_ident(table_name) FROM information_schema.tables WHERE table_schema = current_schema()")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	if len(names) < 5 {
		t.Fatalf("only %d tables: the test looks in the wrong place", len(names))
	}
	return names
}

// TestErrorsCarryNoValues sends bad input that holds a canary and reads the
// errors.
func TestErrorsCarryNoValues(t *testing.T) {
	t.Parallel()
	const canary = "canary-input-8c8c"
	v := openVault(t, filepath.Join(t.TempDir(), "vault.db"), vault.NewKey(), &vault.Config{SweepEvery: -1})
	tenant, err := v.CreateTenant(t.Context(), "Acme")
	if err != nil {
		t.Fatal(err)
	}
	c := v.Tenant(tenant.ID)
	ctx := t.Context()
	past := time.Now().Add(-time.Hour)
	create := func(p vault.TokenParams) func() error {
		return func() error { _, err := c.CreateToken(ctx, p); return err }
	}
	document := func(text string) func() error {
		return func() error { _, err := c.Tokenize(ctx, vault.JSON(text)); return err }
	}
	for name, do := range map[string]func() error{
		"card number":       create(vault.TokenParams{Type: vault.Card, Data: map[string]string{"number": canary}}),
		"cvc":               create(vault.TokenParams{Type: vault.Card, Data: map[string]string{"number": "4242424242424242", "cvc": canary}}),
		"bank":              create(vault.TokenParams{Type: vault.Bank, Data: map[string]string{"routing_number": canary, "account_number": canary}}),
		"ssn":               create(vault.TokenParams{Type: vault.SocialSecurityNumber, Data: canary}),
		"type":              create(vault.TokenParams{Type: canary, Data: canary}),
		"id":                create(vault.TokenParams{ID: canary + "/", Type: vault.Generic, Data: canary}),
		"id is data":        create(vault.TokenParams{ID: canary, Type: vault.Generic, Data: canary}),
		"mask filter":       create(vault.TokenParams{Type: vault.Generic, Data: canary, Mask: "{{ data | to_number }}"}),
		"mask json":         create(vault.TokenParams{Type: vault.Generic, Data: canary, Mask: "{{ data | json: '$.x' }}"}),
		"fingerprint":       create(vault.TokenParams{Type: vault.Generic, Data: canary, FingerprintExpression: "{{ data | divided_by: 2 }}"}),
		"index":             create(vault.TokenParams{Type: vault.Generic, Data: canary, SearchIndexes: []string{"{{ data | date: '%Y' }}"}}),
		"container":         create(vault.TokenParams{Type: vault.Generic, Data: canary, Containers: []string{canary}}),
		"metadata":          create(vault.TokenParams{Type: vault.Generic, Data: canary, Metadata: map[string]string{"k": canary + "\x00"}}),
		"expires_at":        create(vault.TokenParams{Type: vault.Generic, Data: canary, ExpiresAt: &past}),
		"broken json":       document(`{"a": "` + canary + `", "b": ` + canary + `}`),
		"cut off":           document(`["` + canary),
		"duplicate key":     document(`{"a": "` + canary + `", "a": 1}`),
		"request in array":  document(`[{"type":"card","data":{"number":"` + canary + `"}}]`),
		"unknown attribute": document(`{"type":"token","data":"` + canary + `","mask_it":"` + canary + `"}`),
		"expression":        func() error { _, err := c.Detokenize(ctx, "{{ "+canary+" | nope }}"); return err },
		"query": func() error {
			_, err := c.SearchTokens(ctx, vault.SearchTokensParams{Query: "data:[" + canary})
			return err
		},
		"nonce": func() error {
			return c.AuthorizeSession(ctx, vault.Grant{Nonce: canary, Permissions: []string{"token:create"}})
		},
		"api key":  func() error { _, err := v.Authenticate(ctx, canary); return err },
		"token id": func() error { _, err := c.GetToken(ctx, canary); return err },
		"patch":    func() error { _, err := c.UpdateToken(ctx, canary, vault.JSON(`{"data":`+canary)); return err },
		"application": func() error {
			_, err := c.PatchApplication(ctx, uuid.New(), vault.JSON(`{"type":"`+canary+`"}`))
			return err
		},
		"once": func() error {
			_, _, err := c.Once(ctx, vault.OnceKey{Key: canary + "\n"}, nil)
			return err
		},
		"master key": func() error { _, err := vault.ParseKey(canary); return err },
	} {
		err := do()
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), canary) {
			t.Errorf("%s: the error holds the value", name)
		}
	}
}

// syncBuffer is a buffer that a logger and a test may share.
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
