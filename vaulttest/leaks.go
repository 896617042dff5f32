package vaulttest

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
)

// NoLeaks runs code with unique values, and fails the test if one of them
// leaks:
//
//	vaulttest.NoLeaks(t, v, func(canary vaulttest.Canary) {
//		shop := newShop(v.Owner, canary.Logger())
//		shop.order(ctx, canary.Card)
//		canary.Response("receipt", get(t, "/receipt"))
//		canary.Files(dir)
//	})
//
// The code uses the values as a customer would, and passes its logs, output,
// responses, files and traces to the canary. When the code has returned,
// NoLeaks searches them for the values. It finds plaintext, reversed text,
// base64, hexadecimal, URL encoding and JSON escapes. It also searches all
// tables of v.DB. A failure names the place and the form, never the value.
//
// NoLeaks fails if no database with rows was searched, because it would
// otherwise pass without looking. If v.DB is nil, pass the program's database
// to [Canary.DB], or decline with [Canary.NoDatabase]. A place that held nothing
// to search, such as an empty folder or a logger without records, is named in
// the log of the test.
func NoLeaks(t testing.TB, v *Vault, run func(canary Canary)) {
	t.Helper()
	l := &leaks{t: t}
	canary := Canary{
		Card: randomCard(), SSN: randomDigits(3) + "-" + randomDigits(2) + "-" + randomDigits(4),
		Secret: `s3crét "` + rand.Text() + `" <&/>`, leaks: l, // every encoding changes it
	}
	for _, planted := range []struct {
		id   *string
		typ  vault.TokenType
		data string
	}{
		{&canary.CardToken, vault.TypeCardNumber, canary.Card},
		{&canary.SSNToken, vault.TypeSocialSecurityNumber, canary.SSN},
		{&canary.SecretToken, vault.TypeGeneric, canary.Secret},
	} {
		tok, err := v.Owner.CreateToken(context.Background(), vault.TokenParams{Type: planted.typ, Data: planted.data})
		if err != nil {
			t.Fatalf("vaulttest: %v", err)
		}
		*planted.id = tok.ID
	}
	l.sought = soughtFor(canary)
	if v.DB != nil {
		canary.DB(v.DB)
	}
	run(canary)
	l.finish()
}

// Canary has unique values, as text and as tokens in the vault. Its methods
// accept places to search, and are safe for concurrent use.
type Canary struct {
	Card   string // a card number
	SSN    string // a social security number, with dashes
	Secret string // a text with quotes, letters outside ASCII, and characters that URLs and JSON escape

	// The ids of tokens of the tenant Acme that hold the values.
	CardToken, SSNToken, SecretToken string

	*leaks
}

// leaks searches places for values.
type leaks struct {
	t      testing.TB
	sought []sought

	mu       sync.Mutex
	later    []func() // searches to run when the code has returned
	declined bool     // the program has no database
	searched int      // databases with rows
}

// Text searches a text at once.
func (l *leaks) Text(where, text string) { l.filled(where, []byte(text)) }

// Value searches a Go value at once, such as an error or the spans of a trace. It
// searches the output of %+v and of encoding/json.
func (l *leaks) Value(where string, x any) {
	l.search(where, fmt.Appendf(nil, "%+v", x))
	if text, err := json.Marshal(x); err == nil {
		l.search(where+" as JSON", text)
	}
}

// Response searches the header and the body of a response at once. The body can be
// read again.
func (l *leaks) Response(where string, r *http.Response) {
	l.t.Helper()
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // fully read
	r.Body = io.NopCloser(bytes.NewReader(body))
	if err != nil {
		l.t.Errorf("vaulttest: reading the body of %s: %v", where, err)
	}
	l.filled(where, body)
	for name, values := range r.Header {
		for _, value := range values {
			l.search("header "+name+" of "+where, []byte(value))
		}
	}
}

// Writer returns a writer whose content is searched when the code has returned.
func (l *leaks) Writer(where string) io.Writer {
	w := &content{}
	l.afterwards(func() { l.filled(where, w.bytes()) })
	return w
}

// Logger returns a logger for all levels. Its records are searched when the
// code has returned, as text and as JSON.
func (l *leaks) Logger() *slog.Logger {
	opts := &slog.HandlerOptions{Level: slog.LevelDebug - 100, AddSource: true}
	return slog.New(slog.NewMultiHandler(
		slog.NewTextHandler(l.Writer("log"), opts), slog.NewJSONHandler(l.Writer("log as JSON"), opts)))
}

// Files searches files, and all files in folders, when the code has returned.
func (l *leaks) Files(paths ...string) {
	l.afterwards(func() {
		for _, path := range paths {
			files := 0
			err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
				if err != nil || !d.Type().IsRegular() {
					return err
				}
				files++
				return l.file(path)
			})
			if err != nil {
				l.t.Errorf("vaulttest: searching a file: %v", err)
			} else if files == 0 {
				l.nothing("the folder " + path)
			}
		}
	})
}

func (l *leaks) file(path string) error {
	text, err := os.ReadFile(path)
	l.filled("the file "+path, text)
	return err
}

func (l *leaks) afterwards(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.later = append(l.later, f)
}

func (l *leaks) finish() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.later {
		f()
	}
	if l.searched == 0 && !l.declined {
		l.t.Errorf("vaulttest: no database was searched: pass the program's database to Canary.DB, or call Canary.NoDatabase if it has none")
	}
}

// filled searches a text that must not be empty.
func (l *leaks) filled(where string, text []byte) {
	l.t.Helper()
	if len(text) == 0 {
		l.nothing(where)
	}
	l.search(where, text)
}

// nothing names a place that held nothing to search.
func (l *leaks) nothing(where string) {
	l.t.Helper()
	l.t.Logf("vaulttest: nothing to search in %s", where)
}

// search fails the test for each value in a text.
func (l *leaks) search(where string, text []byte) {
	l.t.Helper()
	for i := range l.sought {
		s := &l.sought[i]
		if at := bytes.Index(text, s.form); at >= 0 {
			line := 1 + bytes.Count(text[:at], []byte("\n"))
			l.t.Errorf("vaulttest: %s is in %s, line %d, %s", s.name, where, line, s.how)
		}
	}
}

// content is a writer that keeps its input.
type content struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write adds to the content.
func (c *content) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.buf.Write(p)
}

func (c *content) bytes() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Clone(c.buf.Bytes())
}

// randomDigits returns n digits.
func randomDigits(n int) string {
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
	x, err := rand.Int(rand.Reader, most)
	if err != nil {
		panic(err) // crypto/rand never returns an error
	}
	return fmt.Sprintf("%0*d", n, x)
}

// randomCard returns a card number with a valid checksum.
func randomCard() string {
	body := "424242" + randomDigits(9)
	sum := 0
	for i := range len(body) {
		n := int(body[len(body)-1-i] - '0')
		if i%2 == 0 {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
	}
	return body + string(rune('0'+(10-sum%10)%10))
}
