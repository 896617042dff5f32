package cli_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// run runs a command for the vault, and returns its output and exit code.
func (w *toolVault) run(in io.Reader, args ...string) (string, int) {
	w.t.Helper()
	var out bytes.Buffer
	code := w.runTo(w.t.Context(), cli.Streams{In: in, Out: &out, Err: &out}, args...)
	return out.String(), code
}

func (w *toolVault) runTo(ctx context.Context, io cli.Streams, args ...string) int {
	return cli.Run(ctx, args, func(name string) string { return w.env[name] }, io)
}

// must runs a command that has to succeed.
func (w *toolVault) must(args ...string) string {
	w.t.Helper()
	out, code := w.run(strings.NewReader(""), args...)
	if code != 0 {
		w.t.Fatalf("tokenvault %s: exit %d\n%s", strings.Join(args, " "), code, out)
	}
	return out
}

// says runs a command, and checks its exit code and a part of its output.
func (w *toolVault) says(want int, part string, args ...string) {
	w.t.Helper()
	if out, code := w.run(strings.NewReader(""), args...); code != want || !strings.Contains(out, part) {
		w.t.Errorf("tokenvault %s: exit %d, want %d and %q\n%s", strings.Join(args, " "), code, want, part, out)
	}
}

// path returns a path in the folder. If there is content, it writes the file.
func (w *toolVault) path(name, content string) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if content != "" {
		must.Do(w.t, os.WriteFile(path, []byte(content), 0o600))
	}
	return path
}

// TestBadRowInEachPosition imports files in both formats, with one bad row
// in each position.
func TestBadRowInEachPosition(t *testing.T) {
	t.Parallel()
	const rows = 9
	w := newToolVault(t, local)
	for format, row := range map[string]func(id string, bad bool) string{
		"csv": func(id string, bad bool) string {
			if bad {
				return id + ",12,34"
			}
			return id + ",4242424242424242"
		},
		"jsonl": func(id string, bad bool) string {
			if bad {
				return `{"type":"card","data":{"number":"1"},"id":"` + id + `"}`
			}
			return `{"type":"card","data":{"number":"4242424242424242"},"id":"` + id + `"}`
		},
	} {
		for bad := 1; bad <= rows; bad++ {
			var file strings.Builder
			if format == "csv" {
				file.WriteString("id,data.number\n")
			}
			for n := 1; n <= rows; n++ {
				file.WriteString(row(fmt.Sprintf("%s-%d-%d", format, bad, n), n == bad) + "\n")
			}
			args := []string{"import", "-", "--format", format}
			if format == "csv" {
				args = append(args, "--type", "card")
			}
			out, code := w.run(strings.NewReader(file.String()), args...)
			if code != 1 || !strings.HasPrefix(out, fmt.Sprintf("row %d: ", bad)) ||
				!strings.HasSuffix(out, fmt.Sprintf("Imported %d rows: %d created, 0 updated, 0 skipped, 1 failed.\n", rows, rows-1)) {
				t.Errorf("%s, bad row %d: exit %d\n%s", format, bad, code, out)
			}
			if strings.Contains(out, "12,34") || strings.Contains(out, `"1"`) {
				t.Errorf("%s: the report contains a value: %s", format, out)
			}
		}
	}
	must.Contain(t, "stats", w.must("stats", "--json"), fmt.Sprintf(`{"tokens":%d,`, 2*rows*(rows-1)))
}

// generator is a file whose content is generated as it is read.
type generator struct {
	row  func(n int) string // "" ends the file
	n    int
	rest string
	peak func()
}

func (g *generator) Read(p []byte) (int, error) {
	if g.rest == "" {
		g.n++
		if g.rest = g.row(g.n); g.rest == "" {
			return 0, io.EOF
		}
		g.peak()
	}
	n := copy(p, g.rest)
	g.rest = g.rest[n:]
	return n, nil
}

// TestImportMemoryIsConstant imports a large generated file and measures the heap. The
// heap must not grow with the rows.
func TestImportMemoryIsConstant(t *testing.T) {
	const chunks, size = 4, 8000
	rows := chunks * long.Rounds(750, 10_000)
	w := newToolVault(t, local)
	var heaps []uint64
	g := &generator{
		row: func(n int) string {
			if n > rows {
				return ""
			}
			return fmt.Sprintf(`{"type":"token","id":"row-%d","data":%q}`+"\n", n, strings.Repeat("x", size))
		},
	}
	g.peak = func() {
		if g.n%(rows/chunks) == 0 {
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			heaps = append(heaps, m.HeapAlloc)
		}
	}
	out, code := w.run(g, "import", "-")
	if want := fmt.Sprintf("Imported %d rows: ", rows); code != 0 || !strings.HasPrefix(out, want) || !strings.Contains(out, " 0 failed.") {
		t.Fatalf("exit %d\n%s", code, out)
	}
	t.Logf("heap %v", heaps)
	first, last := heaps[0], heaps[len(heaps)-1]
	if last > first+8<<20 { // about one batch; the rows in between are more than 18 MB
		t.Errorf("the heap grew from %d to %d MiB", first>>20, last>>20)
	}
}

// TestEndlessRowsAreRefused imports a line, and a quoted field, that is longer
// than any row may be.
func TestEndlessRowsAreRefused(t *testing.T) {
	const megabytes = 64
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	w := newToolVault(t, local)
	filler := strings.Repeat("x", 1<<20)
	var most uint64
	endless := func(head, tail string) io.Reader {
		g := &generator{peak: func() {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
		}}
		g.row = func(n int) string {
			switch {
			case n == 1:
				return head
			case n <= megabytes:
				return filler
			case n == megabytes+1:
				return tail
			}
			return ""
		}
		return g
	}
	out, code := w.run(endless(`{"type":"token","id":"long","data":"`, "\"}\n"+`{"type":"token","id":"next","data":"x"}`+"\n"), "import", "-")
	if code != 1 || !strings.Contains(out, "row 1: The row has more than") || !strings.Contains(out, "1 created, 0 updated, 0 skipped, 1 failed") {
		t.Errorf("a long line: exit %d\n%s", code, out)
	}
	out, code = w.run(endless("id,data\na,b\nc,\"", "\"\nd,e\n"), "import", "-", "--format", "csv", "--type", "token")
	if code != 1 || !strings.Contains(out, "a quote is probably not closed") {
		t.Errorf("a long quote: exit %d\n%s", code, out)
	}
	if most > 400<<20 {
		t.Errorf("the heap had %d MiB", most>>20)
	}
}

// TestSealedExportCanBeImported exports tokens for an age identity,
// and imports them into another vault.
func TestSealedExportCanBeImported(t *testing.T) {
	t.Parallel()
	from, to := newToolVault(t, local), newToolVault(t, local)
	identity := must.Get(age.GenerateX25519Identity())(t)
	from.must("token", "create", "--type", "card", "--data", `{"number":"4242424242424242","cvc":"123"}`, "--id", "card-1", "--metadata", "a=b")
	from.must("token", "create", "--data", "secret-value", "--id", "text-1", "--container", "/x/")
	file := from.path("tokens.jsonl.age", "")
	from.says(0, "Exported 2 tokens.", "export", file, "--recipient", identity.Recipient().String())
	content, err := os.ReadFile(file)
	if err != nil || !bytes.HasPrefix(content, []byte("age-encryption.org/v1")) || bytes.Contains(content, []byte("secret-value")) {
		t.Errorf("the file is not sealed: %.60q %v", content, err)
	}
	must.Same(t, "info.Mode().Perm", fs.FileMode(0o600), must.Get(os.Stat(file))(t).Mode().Perm())
	must.Same(t, "uses in the log", 2, strings.Count(from.must("log", "list", "--operation", "use", "--json"), "\n"))
	to.says(2, "--identity", "import", file)
	other := must.Get(age.GenerateX25519Identity())(t)
	to.says(1, "", "import", file, "--identity", to.path("other.txt", other.String()+"\n"))
	to.must("import", file, "--identity", to.path("identity.txt", identity.String()+"\n"))
	for id, want := range map[string]string{"card-1": `{"number":"4242424242424242"}`, "text-1": `"secret-value"`} {
		must.Same(t, id, want+"\n", to.must("detokenize", "{{ "+id+" }}"))
	}
	to.says(0, "a=b", "token", "get", "card-1")
}

// TestOpenPGP imports files as payment processors send them: encrypted, with
// and without armor, compressed, and with a passphrase on the key.
func TestOpenPGP(t *testing.T) {
	t.Parallel()
	key := must.Get(openpgp.NewEntity("Processor", "", "p@example.com", nil))(t)
	for name, c := range map[string]struct{ armored, passphrase, altered bool }{
		"binary": {}, "armored": {armored: true}, "passphrase": {passphrase: true}, "altered": {altered: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newToolVault(t, local)
			file := w.path("cards.csv.pgp", "")
			message := encrypted(t, key, c.armored, "ref;pan\ncard-1;4242424242424242\ncard-2;5555555555554444\n")
			if c.altered {
				message[len(message)-5] ^= 1
			}
			must.Do(t, os.WriteFile(file, message, 0o600))
			args := []string{"import", file, "--type", "card", "--map", "id=ref,data.number=pan", "--delimiter", ";", "--pgp-key", w.path("key.asc", privateKey(t, key, c.passphrase))}
			if c.passphrase {
				w.says(1, "TOKENVAULT_PGP_PASSPHRASE", args...)
				w.env["TOKENVAULT_PGP_PASSPHRASE"] = "correct horse"
			}
			if c.altered {
				w.says(1, "", args...)
				return
			}
			w.says(0, "2 created", args...)
		})
	}
}

// Only the end of an OpenPGP message shows that it was altered. No row of it
// is imported, from a file or from standard input.
func TestAlteredOpenPGPImportsNothing(t *testing.T) {
	t.Parallel()
	key := must.Get(openpgp.NewEntity("Processor", "", "p@example.com", nil))(t)
	var rows strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&rows, `{"id":"row-%d","type":"token","data":"x"}`+"\n", i)
	}
	message := encrypted(t, key, false, rows.String())
	message[len(message)-5] ^= 1
	for name, in := range map[string]string{"cards.jsonl.pgp": "", "-": string(message)} {
		w := newToolVault(t, local)
		file := name
		if name != "-" {
			file = w.path(name, string(message))
		}
		out, code := w.run(strings.NewReader(in), "import", file, "--pgp-key", w.path("key.asc", privateKey(t, key, false)))
		if code != 1 || !strings.Contains(out, "nothing was imported") {
			t.Errorf("%s: exit %d\n%s", name, code, out)
		}
		if out, _ := w.run(nil, "token", "list", "--json"); strings.Contains(out, "row-") {
			t.Errorf("%s: rows of an altered file were imported: %.200s", name, out)
		}
	}
}

// encrypted encrypts a text to a key.
func encrypted(t *testing.T, to *openpgp.Entity, armored bool, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	var sink io.Writer = &out
	var closers []io.Closer
	if armored {
		a := must.Get(armor.Encode(&out, "PGP MESSAGE", nil))(t)
		sink, closers = a, append(closers, a)
	}
	w := must.Get(openpgp.Encrypt(sink, []*openpgp.Entity{to}, nil, nil, &packet.Config{DefaultCompressionAlgo: packet.CompressionZLIB}))(t)
	must.Get(io.WriteString(w, text))(t)
	for _, c := range append([]io.Closer{w}, closers...) {
		must.Do(t, c.Close())
	}
	return out.Bytes()
}

// privateKey returns an armored private key.
func privateKey(t *testing.T, key *openpgp.Entity, passphrase bool) string {
	t.Helper()
	var plain, out bytes.Buffer
	must.Do(t, key.SerializePrivateWithoutSigning(&plain, nil))
	keys := must.Get(openpgp.ReadKeyRing(&plain))(t)
	if passphrase {
		must.Do(t, keys[0].EncryptPrivateKeys([]byte("correct horse"), nil))
	}
	a := must.Get(armor.Encode(&out, openpgp.PrivateKeyType, nil))(t)
	must.Do(t, keys[0].SerializePrivateWithoutSigning(a, nil))
	must.Do(t, a.Close())
	return out.String()
}

func TestGzip(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	var file bytes.Buffer
	z := gzip.NewWriter(&file)
	must.Get(io.WriteString(z, "\ufeffid\tdata\na-1\tb\na-2\tc\n"))(t)
	must.Do(t, z.Close())
	w.says(0, "2 created", "import", w.path("rows.tsv.gz", file.String()), "--type", "token")
}

// TestStateBelongsToOneTarget resumes an import into another vault, and with
// another file of the same size. Both must fail.
func TestStateBelongsToOneTarget(t *testing.T) {
	t.Parallel()
	for _, way := range []string{local, remote} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w, other := newToolVault(t, way), newToolVault(t, way)
			rows, state := w.path("rows.jsonl", `{"type":"token","data":"one"}`), w.path("state", "")
			w.must("import", rows, "--resume", state)
			other.says(1, "is the state of an import into another tenant or vault", "import", rows, "--resume", state)
			file := w.path("other.jsonl", `{"type":"token","data":"two"}`)
			w.says(1, "is the state of the import of another file", "import", file, "--resume", state)
			w.must("import", rows, "--resume", state)
		})
	}
}
