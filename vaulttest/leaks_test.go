package vaulttest_test

import (
	"database/sql"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// failures is a testing.TB that records failures.
type failures struct {
	testing.TB
	messages, logged []string
}

func (f *failures) Helper() {}

func (f *failures) Logf(format string, args ...any) {
	f.logged = append(f.logged, fmt.Sprintf(format, args...))
}

func (f *failures) Errorf(format string, args ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, args...))
}

// leaked runs code under NoLeaks and returns the failures. None may contain a
// value.
func leaked(t *testing.T, v *vaulttest.Vault, run func(vaulttest.Canary)) string {
	t.Helper()
	f := &failures{TB: t}
	var values []string
	vaulttest.NoLeaks(f, v, func(c vaulttest.Canary) {
		values = []string{c.Card, c.SSN, c.Secret, strings.ReplaceAll(c.SSN, "-", "")}
		run(c)
	})
	all := strings.Join(f.messages, "\n")
	for _, value := range values {
		must.Lack(t, "the failures", all, value)
	}
	return all
}

func TestNoLeaksFindsEveryForm(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	reverse := func(s string) string {
		letters := []rune(s)
		slices.Reverse(letters)
		return string(letters)
	}
	asJSON := func(s string) string {
		text, _ := json.Marshal(map[string]string{"k": "before " + s})
		return string(text)
	}
	for how, encode := range map[string]func(string) string{
		"in plain text":    func(s string) string { return "a" + s + "b" },
		"reversed":         reverse,
		"in base64":        func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) },
		"in hexadecimal":   func(s string) string { return hex.EncodeToString([]byte("x" + s)) },
		"encoded for URLs": func(s string) string { return url.Values{"q": {s}}.Encode() },
		"escaped in JSON":  asJSON,
	} {
		got := leaked(t, v, func(c vaulttest.Canary) { c.Text("here", "\n"+encode(c.Secret)) })
		must.Same(t, "the failure", "vaulttest: the secret is in here, line 2, "+how, got)
	}
	for i := range 3 { // anywhere in a longer text
		got := leaked(t, v, func(c vaulttest.Canary) {
			for _, value := range []string{c.Card, c.SSN, c.Secret} {
				c.Text("here", base64.URLEncoding.EncodeToString([]byte("xxx"[:i]+value+"yyy")))
			}
		})
		must.Same(t, fmt.Sprintf("at offset %d", i), 3, strings.Count(got, "in base64"))
	}
	got := leaked(t, v, func(c vaulttest.Canary) {
		c.Text("a", c.Card[:4]+" "+c.Card[4:8]+" "+c.Card[8:12]+" "+c.Card[12:])
		c.Text("b", strings.ReplaceAll(c.SSN, "-", ""))
		c.Text("c", strings.ToUpper(hex.EncodeToString([]byte(c.Card))))
	})
	for _, want := range []string{"card number is in a", "security number is in b", "card number is in c"} {
		must.Contain(t, "the failure", got, want)
	}
}

func TestNoLeaksSearchesEverywhere(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	must.Get(v.DB.Exec(`CREATE TABLE orders (id integer, note text)`))(t)
	dir := t.TempDir()
	got := leaked(t, v, func(c vaulttest.Canary) {
		fmt.Fprintln(c.Writer("the output"), "card", c.Card)
		c.Logger().Debug("m", "ssn", c.SSN, "err", errors.New(c.Card))
		c.Value("the trace", struct{ inner string }{c.Card})
		c.Value("the message", json.RawMessage(`"`+c.Card+`"`))
		must.Do(t, os.WriteFile(filepath.Join(dir, "dump.txt"), []byte(c.Card), 0o600))
		c.Files(dir)
		must.Get(v.DB.Exec(`INSERT INTO orders VALUES (1, $1)`, "for "+c.Card))(t)
		rec := httptest.NewRecorder()
		rec.Header().Set("X-Debug", c.Secret)
		http.Error(rec, "no "+c.Card, http.StatusBadRequest)
		res := rec.Result()
		c.Response("the receipt", res)
		if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), c.Card) {
			t.Errorf("the body cannot be read again: %v", err)
		}
	})
	for _, want := range []string{
		"card number is in the output, line 1", "security number is in log, line 1", "card number is in log as JSON", "card number is in the trace",
		"card number is in the message as JSON", "card number is in the file " + filepath.Join(dir, "dump.txt"),
		"card number is in the column note of the table orders", "card number is in the receipt", "secret is in header X-Debug of the receipt",
	} {
		must.Contain(t, "the failures", got, want)
	}
	if got := leaked(t, v, func(c vaulttest.Canary) { c.Files(filepath.Join(dir, "missing")) }); !strings.Contains(got, "missing") {
		t.Errorf("a file that does not exist: %q", got)
	}
}

// Without a database that has rows, NoLeaks fails, unless the test declines.
func TestNoLeaksNeedsADatabase(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	v.DB = nil
	empty := must.Get(sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "empty.db")))(t)
	defer empty.Close()
	must.Get(empty.Exec("CREATE TABLE orders (note text)"))(t)
	for name, run := range map[string]func(vaulttest.Canary){
		"no database":     func(vaulttest.Canary) {},
		"without rows":    func(c vaulttest.Canary) { c.DB(empty) },
		"not a database":  func(c vaulttest.Canary) { c.DB("vault.db") },
		"a nil database":  func(c vaulttest.Canary) { c.DB((*sql.DB)(nil)) },
		"nil":             func(c vaulttest.Canary) { c.DB(nil) },
		"another querier": func(c vaulttest.Canary) { c.DB(url.URL{}) },
	} {
		must.Contain(t, name, leaked(t, v, run), "no database was searched")
	}
	if got := leaked(t, v, func(c vaulttest.Canary) { c.NoDatabase() }); got != "" {
		t.Errorf("declined: %q", got)
	}
	must.Get(empty.Exec("INSERT INTO orders VALUES ('a book')"))(t)
	if got := leaked(t, v, func(c vaulttest.Canary) { c.DB(empty) }); got != "" {
		t.Errorf("with a row: %q", got)
	}
}

// Every table of the schema is searched, through database/sql and through pgx.
func TestNoLeaksSearchesPostgres(t *testing.T) {
	t.Parallel()
	v := vaulttest.Postgres(t, pgtest.Server(t))
	pool := must.Get(pgxpool.New(t.Context(), v.SchemaURL))(t)
	defer pool.Close()
	must.Get(v.DB.Exec(`CREATE TABLE "Or""ders" (number numeric, note text, "raw text" bytea, doc jsonb, list text[])`))(t)
	withoutDB := *v
	withoutDB.DB = nil
	for name, w := range map[string]*vaulttest.Vault{"database/sql": v, "pgx": &withoutDB} {
		got := leaked(t, w, func(c vaulttest.Canary) {
			if name == "pgx" {
				c.DB(pool)
			}
			must.Get(v.DB.Exec(`INSERT INTO "Or""ders" VALUES ($1, $2, $3, $4, $5)`, c.Card, c.SSN, []byte(c.Secret), `{"a": "`+c.Card+`"}`, "{"+c.SSN+"}"))(t)
		})
		for _, want := range []string{
			`card number is in the column number of the table "Or""ders"`, "security number is in the column note of", "secret is in the column raw text of",
			"card number is in the column doc of", "security number is in the column list of",
		} {
			must.Contain(t, name+": the failures", got, want)
		}
	}
}

// Places that held nothing to search are named.
func TestNoLeaksNamesEmptyPlaces(t *testing.T) {
	t.Parallel()
	f, dir := &failures{TB: t}, t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "empty.log"), nil, 0o600))
	vaulttest.NoLeaks(f, vaulttest.New(t), func(c vaulttest.Canary) {
		c.Writer("the output")
		c.Text("the message", "")
		c.Response("the receipt", httptest.NewRecorder().Result())
		c.Files(dir, t.TempDir())
		c.Text("the full message", "a book")
	})
	all := strings.Join(f.logged, "\n")
	for _, want := range []string{"the output", "the message", "the receipt", "the file " + filepath.Join(dir, "empty.log"), "the folder "} {
		must.Contain(t, "the failures", all, "nothing to search in "+want)
	}
	if strings.Contains(all, "full") || len(f.messages) > 0 {
		t.Errorf("logged %q, failed with %q", all, f.messages)
	}
}

// The vault itself leaks no value.
func TestNoLeaksOfTheVault(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	vaulttest.NoLeaks(t, v, func(c vaulttest.Canary) {
		ctx, log := t.Context(), c.Logger()
		for id, data := range map[string]string{c.CardToken: c.Card, c.SSNToken: c.SSN, c.SecretToken: c.Secret} {
			var plain string
			out, err := v.Private.Detokenize(ctx, "{{ "+id+" }}")
			if err != nil || out.Decode(&plain) != nil || plain != data {
				t.Fatalf("the token does not hold the value: %v", err)
			}
			tok, err := v.Private.GetToken(ctx, id)
			log.Info("read", "token", tok, "err", err)
			c.Value("the masked token", tok)
		}
		_, err := v.Private.CreateToken(ctx, vault.TokenParams{Type: vault.TypeBank, Data: c.Card})
		c.Value("the error", err)
	})
}
