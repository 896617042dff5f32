package cli_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

// TestUsageErrors checks the messages for wrong usage.
func TestUsageErrors(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	rows := w.path("rows.csv", "id,data\na-1,x\n")
	for name, c := range map[string]struct {
		args []string
		env  map[string]string
		code int
		want string
	}{
		"a command":     {[]string{"tokn", "list"}, nil, 2, "did you mean tokenvault token list?"},
		"one word":      {[]string{"improt", rows}, nil, 2, "did you mean tokenvault import?"},
		"a second word": {[]string{"token", "lst"}, nil, 2, "did you mean tokenvault token list?"},
		"nothing alike": {[]string{"frobnicate"}, nil, 2, "see tokenvault --help"},
		"a type":        {[]string{"import", rows, "--type", "crad"}, nil, 2, "did you mean card?"},
		"another type":  {[]string{"token", "create", "--type", "nonsense", "--data", "x"}, nil, 2, "--type is one of: token, card,"},
		"plain http":    {[]string{"token", "list", "--url", "http://vault.example"}, map[string]string{"TOKENVAULT_API_KEY": "x"}, 2, "unencrypted; --allow-plain-http allows it"},
		"a tenant":      {[]string{"token", "list", "--tenant", "Nobody"}, nil, 3, "tenant not found; tokenvault tenant list"},
		"a token":       {[]string{"token", "get", "no-such-token"}, nil, 3, "tokenvault: token not found\n"},
		"another master": {[]string{"token", "list"}, map[string]string{"TOKENVAULT_MASTER_KEY": vault.NewKey().Text()}, 1,
			"tokenvault: this is not the master key that the database was encrypted with\n  give the --key-file"},
	} {
		var out bytes.Buffer
		getenv := func(name string) string {
			if value, ok := c.env[name]; ok {
				return value
			}
			return w.env[name]
		}
		code := cli.Run(t.Context(), c.args, getenv, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if code != c.code || !strings.Contains(out.String(), c.want) || strings.Contains(out.String(), "Options.") || strings.Contains(out.String(), "vault: vault") {
			t.Errorf("%s: exit %d, want %d and %q\n%s", name, code, c.code, c.want, out.String())
		}
	}
}

// TestSecretURLsOnTheCommandLine checks which URLs are refused there. The
// environment may hold them, because other users cannot read it.
func TestSecretURLsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	const refused = "must not have a password"
	run := func(env map[string]string, args ...string) string {
		var out bytes.Buffer
		code := cli.Run(t.Context(), args, func(name string) string { return env[name] }, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &out})
		if code == 0 || strings.Contains(out.String(), "s3cret") || strings.Contains(out.String(), refused) && code != 2 {
			t.Errorf("%v: exit %d\n%s", args, code, out.String())
		}
		return out.String()
	}
	for _, args := range [][]string{
		{"serve", "--db", "postgres://vault:s3cret@db/vault"}, {"serve", "--db=postgres://vault:s3cret@db/vault"},
		{"serve", "--db", "postgres://vault:s3cret%zz@db/vault"}, {"migrate", "up", "--db", "postgres://vault@db/vault?password=s3cret"},
		{"serve", "--log-sink", "siem=https://siem.example/x?Token=s3cret,otlp"}, {"serve", "--log-sink", "a=stdout b=https://b.example/?key=s3cret"},
		{"serve", "--evidence-anchor", "file:a,https://b.example/?signature=s3cret"}, {"serve", "--console-url", "https://c.example/?secret=s3cret"},
		{"token", "list", "--url", "https://user:s3cret@vault.example"},
	} {
		if out := run(nil, args...); !strings.Contains(out, refused) {
			t.Errorf("%v: %s", args, out)
		}
	}
	for _, args := range [][]string{
		{"serve", "--key-file", "no-such-file", "--db", "postgres://vault@db1:5432,db2:5432/vault?sslmode=verify-full"},
		{"serve", "--key-file", "no-such-file", "--log-sink", "siem=https://siem.example/keys?keys=1&monkey=2"},
	} {
		if out := run(nil, args...); strings.Contains(out, refused) {
			t.Errorf("%v: %s", args, out)
		}
	}
	env := map[string]string{"TOKENVAULT_DB": "postgres://vault:s3cret@db/vault", "TOKENVAULT_LOG_SINK": "siem=https://siem.example/x?token=s3cret"}
	must.Contain(t, "from the environment", run(env, "serve", "--key-file", "no-such-file"), "no master key")
}

// TestInterruptedImportIsResumed interrupts an import and resumes it. The
// summary counts each row once.
func TestInterruptedImportIsResumed(t *testing.T) {
	t.Parallel()
	const rows = 3000
	w := newToolVault(t, local)
	var file strings.Builder
	for n := range rows {
		fmt.Fprintf(&file, `{"type":"token","id":"row-%d","data":"x"}`+"\n", n)
	}
	path, state := w.path("rows.jsonl", file.String()), w.path("state", "")
	ctx, interrupt := context.WithCancel(t.Context())
	g := &generator{peak: func() {}}
	lines := strings.SplitAfter(file.String(), "\n")
	g.row = func(n int) string {
		if n == rows/2 {
			interrupt()
		}
		if n > rows {
			return ""
		}
		return lines[n-1]
	}
	var out bytes.Buffer
	code := w.runTo(ctx, cli.Streams{In: g, Out: &out, Err: &out}, "import", "-")
	if code != 130 || !strings.Contains(out.String(), "interrupted after row ") || !strings.Contains(out.String(), "--resume FILE") {
		t.Errorf("without a state: exit %d\n%s", code, out.String())
	}
	w.must("import", path, "--resume", state, "--on-duplicate", "skip")
	forget(t, state, rows) // as if the import was killed before it saved the state
	got, code := w.run(strings.NewReader(""), "import", path, "--resume", state)
	const want = "Imported 3000 rows: 1,000 created, 0 updated, 0 skipped, 0 failed, 2,000 found from the interrupted run.\n"
	if code != 0 || got != want {
		t.Errorf("exit %d\n%swant %s", code, got, want)
	}
}

// forget changes a state so that only a third of the rows is done.
func forget(t *testing.T, state string, rows int) {
	t.Helper()
	text := must.Get(os.ReadFile(state))(t)
	name, _, _ := strings.Cut(string(text), `"rows":`)
	must.Do(t, os.WriteFile(state, fmt.Appendf([]byte(name), `"rows":%d,"created":%d,"done":false}`, rows/3, rows/3), 0o600))
}

// TestInterruptAtAQuestion presses Ctrl-C at a question.
func TestInterruptAtAQuestion(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	w.must("token", "create", "--data", "secret-value", "--id", "tok-1")
	d := terminaltest.New(t, 80)
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	code := w.runTo(ctx, cli.Streams{In: d.TTY, Out: d.TTY, Err: d.TTY}, "token", "delete", "tok-1")
	if drawn := d.Finish(); code != 130 || !strings.Contains(drawn, "interrupted") || strings.Contains(drawn, "Deleted") {
		t.Errorf("exit %d\n%s", code, drawn)
	}
	w.must("token", "get", "tok-1")
}
