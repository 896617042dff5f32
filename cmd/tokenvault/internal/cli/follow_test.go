package cli_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// following is a running tokenvault log follow.
type following struct {
	t     *testing.T
	lines *bufio.Scanner
	stop  context.CancelFunc
	ended chan int
}

func (w *toolVault) follow(args ...string) *following {
	w.t.Helper()
	ctx, stop := context.WithCancel(w.t.Context())
	r, out := io.Pipe()
	f := &following{t: w.t, lines: bufio.NewScanner(r), stop: stop, ended: make(chan int, 1)}
	go func() {
		code := w.runTo(ctx, cli.Streams{In: strings.NewReader(""), Out: out, Err: os.Stderr}, append([]string{"log", "follow"}, args...)...)
		_ = out.Close()
		f.ended <- code
	}()
	return f
}

// next returns the id of the next created entity.
func (f *following) next() string {
	f.t.Helper()
	for f.lines.Scan() {
		var e vault.LogEntry
		if err := json.Unmarshal(f.lines.Bytes(), &e); err != nil {
			f.t.Fatalf("%s: %v", f.lines.Text(), err)
		}
		if e.Operation == "create" && strings.HasPrefix(e.EntityID, "tok-") {
			return e.EntityID
		}
	}
	f.t.Fatal("the log has ended")
	return ""
}

// end interrupts the command, which is the only way to end it.
func (f *following) end() {
	f.t.Helper()
	f.stop()
	for f.lines.Scan() { // the remaining output
	}
	must.Same(f.t, "exit", 0, <-f.ended)
}

// TestFollowingSurvivesRestarts follows the log, stops, and restarts. After
// the restart it gets the entries that it missed.
func TestFollowingSurvivesRestarts(t *testing.T) {
	t.Parallel()
	for _, way := range []string{local, remote} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			w := newToolVault(t, way)
			n := 0
			create := func() string {
				n++
				id := fmt.Sprintf("tok-%d", n)
				key := w.env["TOKENVAULT_API_KEY"]
				w.env["TOKENVAULT_API_KEY"] = w.keys["private"]
				w.must("token", "create", "--data", "x", "--id", id)
				w.env["TOKENVAULT_API_KEY"] = key
				return id
			}
			w.env["TOKENVAULT_API_KEY"] = w.keys["management"]
			cursor := w.path("cursor", "")
			before := create()
			f := w.follow("--since", "1h", "--cursor-file", cursor)
			must.Same(t, "the entry before", before, f.next())
			f.end()
			missed := create()
			f = w.follow("--cursor-file", cursor)
			must.Same(t, "after a restart", missed, f.next())
			f.end()
			must.Same(t, "the cursor file", fs.FileMode(0o600), must.Get(os.Stat(cursor))(t).Mode().Perm())
			f = w.follow("--since", "1h")
			for id := 1; id <= n; id++ {
				if got, want := f.next(), fmt.Sprintf("tok-%d", id); got != want {
					t.Errorf("without a cursor: %s, want %s", got, want)
				}
			}
			f.end()
		})
	}
}

// TestChangeOfMasterKey changes the master key as the manual describes.
func TestChangeOfMasterKey(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	w.must("token", "create", "--data", "x", "--id", "tok-1")
	old := w.path("old.key", w.env["TOKENVAULT_MASTER_KEY"]+"\n")
	next := w.path("next.key", strings.TrimSpace(w.must("key", "new"))+"\n")
	w.env["TOKENVAULT_MASTER_KEY"] = ""
	w.says(1, "not the master key", "key", "check", "--key-file", next)
	w.must("key", "check", "--key-file", old, "--other-key-file", next)
	w.must("key", "rewrap", "--key-file", next, "--other-key-file", old, "--yes")
	w.says(1, "", "key", "check", "--key-file", old)
	must.Same(t, "the token", "\"x\"\n", w.must("detokenize", "{{ tok-1 }}", "--key-file", next))
}

// TestRotate rotates the keys of one tenant, and then of all tenants.
func TestRotate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"one": {[]string{"tenant", "rotate", "Acme"}, "Rotated the keys of 1 tenant: "},
		"all": {[]string{"tenant", "rotate", "--all", "--json"}, `{"rows":`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newToolVault(t, local)
			w.must("token", "create", "--data", "x", "--id", "tok-1")
			if out := w.must(c.args...); !strings.HasPrefix(out, c.says) {
				t.Error(out)
			}
			must.Contain(t, "the log", w.must("log", "list", "--entity-type", "tenant", "--json"), "Data keys before 2 destroyed")
			must.Same(t, "the token", "\"x\"\n", w.must("detokenize", "{{ tok-1 }}"))
		})
	}
}
