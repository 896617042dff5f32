package cli_test

import (
	"strings"
	"testing"
)

// A tenant can rename itself to a name that another tenant no longer uses.
// Commands that make changes do not accept such a name; commands that only
// read do.
func TestReusedNameNeedsTheID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, local)
	delete(w.env, "TOKENVAULT_TENANT")
	id := func(name string) string {
		out := w.must("tenant", "create", name, "--json")
		_, rest, _ := strings.Cut(out, `"id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		return id
	}
	globex, mallory := id("Globex"), id("Mallory")
	w.must("token", "create", "--type", "token", "--data", "x", "--tenant", "Globex")
	w.must("tenant", "update", globex, "--name", "Globex Inc.")
	w.must("tenant", "update", mallory, "--name", "Globex")
	for _, args := range [][]string{
		{"token", "create", "--type", "token", "--data", "x", "--tenant", "Globex"},
		{"tenant", "delete", "Globex", "--yes"},
		{"tenant", "update", "Globex Inc.", "--deduplicate-tokens=true"},
	} {
		if out, code := w.run(nil, args...); code == 0 || !strings.Contains(out, "use its id") {
			t.Errorf("%q: exit %d\n%s", args, code, out)
		}
	}
	w.must("token", "list", "--tenant", "Globex")
	w.must("tenant", "update", mallory, "--deduplicate-tokens=true")
	w.must("tenant", "delete", globex, "--yes")
	w.must("tenant", "delete", mallory, "--yes")

	// The names of deleted tenants are remembered, and so are the names that
	// tenants had in between.
	for _, name := range []string{"Globex", "Globex Inc."} {
		again := id(name)
		if out, code := w.run(nil, "token", "create", "--type", "token", "--data", "x", "--tenant", name); code == 0 || !strings.Contains(out, "use its id") {
			t.Errorf("%s is another tenant now: exit %d\n%s", name, code, out)
		}
		w.must("token", "create", "--type", "token", "--data", "x", "--tenant", again)
	}

	// A tenant that takes its own name back is the same one.
	acme := id("Initech")
	w.must("tenant", "update", acme, "--name", "Initrode")
	w.must("tenant", "update", acme, "--name", "Initech")
	w.must("token", "create", "--type", "token", "--data", "x", "--tenant", "Initech")
}
