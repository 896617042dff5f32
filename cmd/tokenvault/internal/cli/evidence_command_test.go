package cli_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"encoding/pem"
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/note"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// exits runs a command, checks its exit status, and returns its output.
func (w *toolVault) exits(want int, args ...string) string {
	w.t.Helper()
	var out, problems bytes.Buffer
	code := cli.Run(w.t.Context(), args, func(name string) string { return w.env[name] }, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &problems})
	if code != want {
		w.t.Fatalf("%q: exit %d, want %d\n%s%s", args, code, want, out.String(), problems.String())
	}
	return out.String()
}

func (w *toolVault) sql(statement string, args ...any) {
	w.t.Helper()
	db := must.Get(sql.Open("sqlite", w.env["DB"]))(w.t)
	defer func() { _ = db.Close() }()
	result := must.Get(db.ExecContext(w.t.Context(), statement, args...))(w.t)
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		w.t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}

func (w *toolVault) write(name string, content []byte) string {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	must.Do(w.t, os.WriteFile(path, content, 0o600))
	return path
}

func TestEvidenceCommands(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	key := strings.TrimSpace(w.exits(0, "log", "key"))
	begin := w.write("begin.note", []byte(w.exits(0, "log", "checkpoint")))
	w.exits(0, "token", "create", "--type", "token", "--data", "x")
	entry := strings.Split(w.exits(0, "log", "list", "--limit", "1", "--json"), `"`)[3]
	must.Do(t, evidence.VerifyProof([]byte(w.exits(0, "log", "prove", entry)), key))
	w.exits(2, "log", "prove", "no-id")
	w.exits(3, "log", "prove", "0198c5a0-0000-7000-8000-000000000000")
	file := filepath.Join(w.dir, "acme.ndjson")
	must.Do(t, os.WriteFile(file, nil, 0o644))
	w.exits(0, "log", "evidence", file)
	must.Same(t, "the bundle has mode", fs.FileMode(0o600), must.Get(os.Stat(file))(t).Mode().Perm())
	link := filepath.Join(w.dir, "link")
	must.Do(t, os.Symlink(file, link))
	w.exits(2, "log", "evidence", link)
	w.exits(0, "log", "verify")
	w.exits(0, "log", "verify", "--since", begin)
	w.exits(1, "log", "accept-restore", "--reason", "none")
	w.exits(1, "log", "accept-restore", "--reason", "none", "--yes")
	w.exits(2, "log", "accept-restore")

	bundle := must.Get(os.ReadFile(file))(t)
	must.Contain(t, "standard output", w.exits(0, "log", "evidence"), entry)
	w.env = map[string]string{"DIR": w.dir, "DB": w.env["DB"]} // neither a database nor a master key
	w.exits(0, "log", "verify", file, "--key", key, "--since", begin)
	w.exits(2, "log", "verify", file)
	w.exits(2, "log", "verify", file, "--key", key, "--anchor", begin)
	w.exits(2, "log", "verify", "--key", key)
	w.exits(6, "log", "verify", filepath.Join(w.dir, "none"), "--key", key)
	w.exits(6, "log", "verify", file, "--key", key, "--since", filepath.Join(w.dir, "none"))
	_, other, err := note.GenerateKey(rand.Reader, strings.SplitN(key, "+", 2)[0])
	must.Do(t, err)
	must.Contain(t, "another key", w.exits(5, "log", "verify", file, "--key", other), "bad signature")
	w.exits(6, "log", "verify", file, "--key", "no key")
	w.exits(6, "log", "verify", w.write("no.ndjson", []byte("{}\n")), "--key", key)
	changed := w.write("changed.ndjson", bytes.Replace(bundle, []byte(`"operation":"create"`), []byte(`"operation":"delete"`), 1))
	must.Contain(t, "an altered line", w.exits(5, "log", "verify", changed, "--key", key), "altered")
	must.Contain(t, "an altered line", w.exits(5, "log", "verify", changed, "--key", key, "--json"), `"verdict":"altered"`)
	short := w.write("short.ndjson", bundle[:len(bundle)/2])
	if code := cli.Run(t.Context(), []string{"log", "verify", short, "--key", key}, func(string) string { return "" }, cli.Streams{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}); code != 5 && code != 6 {
		t.Errorf("half a bundle: exit %d", code)
	}
}

// A database that is older than an anchor is detected, and can be accepted
// with a reason.
func TestRestoreCommands(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	w.exits(0, "log", "checkpoint")
	backup := filepath.Join(w.dir, "backup.db")
	for _, id := range []string{"jane", "jane-2", "joe"} {
		w.exits(0, "token", "create", "--id", id, "--type", "token", "--data", "x")
	}
	w.exits(0, "backup", backup)
	w.exits(0, "erase", "id:jane", "--reason", "case 4711")
	w.exits(0, "erase", "--id", "jane-2", "--id", "nobody", "--reason", "case 4711")
	w.exits(0, "token", "delete", "joe", "--yes")
	bundle := w.write("bundle.ndjson", []byte(w.exits(0, "log", "evidence")))
	lines := w.write("log.ndjson", []byte(w.exits(0, "log", "list", "--json")))
	anchor := w.write("anchor.notes", []byte(w.exits(0, "log", "checkpoint")))
	w.exits(0, "log", "verify", "--anchor", anchor)
	w.exits(6, "log", "verify", "--anchor", filepath.Join(w.dir, "none"))
	w.exits(6, "log", "verify", "--anchor", w.write("empty", nil))
	w.exits(5, "log", "verify", "--anchor", w.write("other", []byte("a\n1\nAAAA\n\n— a AAAA\n")))
	w.env["TOKENVAULT_DB"] = backup
	if got := w.exits(5, "log", "verify", "--anchor", anchor); !strings.Contains(got, "truncated") && !strings.Contains(got, "forked") {
		t.Errorf("an older copy: %s", got)
	}
	w.exits(0, "log", "accept-restore", "--reason", "a test", "--anchor", anchor)
	if got := w.exits(0, "log", "verify"); !strings.HasPrefix(got, "restored\t") || !strings.Contains(got, `reason: "a test"`) {
		t.Errorf("verified after a restore: %s", got)
	}
	if got := w.exits(0, "log", "verify", "--json"); !strings.Contains(got, `"restored_at":"`) || !strings.Contains(got, `"reason":"a test"`) {
		t.Errorf("verified after a restore, as JSON: %s", got)
	}
	must.Contain(t, "doctor", w.exits(0, "doctor", "--egress-url", ""), "may lack erasures")
	w.exits(0, "token", "get", "jane")
	w.exits(2, "erase", "id:jane", "--again", bundle)
	for file, want := range map[string]string{bundle: "3 exist again", lines: "3 exist again"} {
		must.Contain(t, "a dry run with "+file, w.exits(0, "erase", "--again", file, "--dry-run"), want)
	}
	w.exits(0, "erase", "--again", bundle, "--again", lines)
	for _, id := range []string{"jane", "jane-2", "joe"} {
		w.exits(3, "token", "get", id)
	}
	must.Contain(t, "doctor", w.exits(0, "doctor", "--egress-url", ""), "the newest note was signed at ")
	before, after := w.exits(0, "log", "key"), w.exits(0, "log", "rotate-key")
	if before == after || after != w.exits(0, "log", "key") {
		t.Errorf("the key %q becomes %q", before, after)
	}
	w.exits(0, "log", "verify")
	w.env["DB"] = backup
	w.sql(`UPDATE vault_log_events SET body = x'00' WHERE n = 0`)
	must.Contain(t, "doctor", w.exits(1, "doctor", "--egress-url", ""), "nothing is signed")
}

// Deleting a tenant with the tool does not count as tampering.
func TestDeletedTenantIsNotTampering(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	w.exits(0, "tenant", "create", "Other")
	w.exits(0, "log", "checkpoint")
	w.exits(0, "tenant", "delete", "Other", "--yes")
	w.exits(0, "log", "verify")
	w.sql(`UPDATE vault_logs SET message = 'x' WHERE entity_type = 'application'`)
	must.Contain(t, "findings", w.exits(5, "log", "verify"), "altered")
}

// Over HTTP an auditor gets notes, proofs and bundles with an API key.
func TestEvidenceOverHTTP(t *testing.T) {
	t.Parallel()
	v := vaulttest.Open(t, ":memory:", &vault.Config{Evidence: &vault.EvidenceConfig{}})
	server := httptest.NewServer(httpserver.Handler(v.Vault, nil))
	defer server.Close()
	w := &toolVault{t: t, dir: t.TempDir(), env: map[string]string{"TOKENVAULT_URL": server.URL, "TOKENVAULT_API_KEY": v.ManagementKey}}
	key := must.Get(v.EvidenceKey())(t)
	note := w.write("note", []byte(w.exits(0, "log", "checkpoint")))
	entry := strings.Split(w.exits(0, "log", "list", "--limit", "1", "--json"), `"`)[3]
	must.Do(t, evidence.VerifyProof([]byte(w.exits(0, "log", "prove", entry)), key))
	bundle := w.write("bundle", []byte(w.exits(0, "log", "evidence")))
	w.exits(0, "log", "verify", bundle, "--key", key, "--since", note)
	w.exits(2, "log", "verify")
}

// TestForwardCommands prints and rotates the certificates of the forward proxy.
func TestForwardCommands(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	first := w.must("forward", "ca")
	both := w.must("forward", "rotate-ca")
	if w.must("forward", "ca") != both || !strings.HasSuffix(both, first) || len(both) < 2*len(first)-100 {
		t.Errorf("after a rotation: %s", both)
	}
	last := w.must("forward", "rotate-ca", "--now", "--domains", "Stripe.com,adyen.com")
	block, rest := pem.Decode([]byte(last))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil || len(rest) != 0 || strings.Join(cert.PermittedDNSDomains, " ") != "stripe.com adyen.com" {
		t.Errorf("after a rotation at once: %+v, %v, %s", cert, err, rest)
	}
	w.says(1, "example.com", "forward", "rotate-ca", "--domains", "https://stripe.com")
}
