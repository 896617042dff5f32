package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestManuals checks that every command has a manual within 80 columns, and an
// example that it accepts.
func TestManuals(t *testing.T) {
	t.Parallel()
	for _, cmd := range commands() {
		var out bytes.Buffer
		p := &program{getenv: func(string) string { return "" }, Streams: Streams{Out: &out, Err: &out}}
		must.Do(t, p.help(strings.Fields(cmd.name)))
		for _, section := range []string{"NAME\n", "SYNOPSIS\n", "EXAMPLE\n", "EXIT STATUS\n"} {
			must.Contain(t, cmd.name, out.String(), section)
		}
		for line := range strings.Lines(out.String()) {
			if len(line) > 81 && !strings.Contains(line, "tokenvault "+cmd.name) {
				t.Errorf("%s: %q is too long", cmd.name, line)
			}
		}
		if strings.HasSuffix(cmd.summary, ".") || cmd.summary == "" {
			t.Errorf("%s: the summary is %q", cmd.name, cmd.summary)
		}
		for line := range strings.Lines(cmd.example) {
			exampleParses(t, p, cmd, strings.TrimSpace(line))
		}
	}
}

// exampleParses parses the call of the program in a line.
func exampleParses(t *testing.T, p *program, cmd *command, line string) {
	t.Helper()
	_, line, ok := strings.Cut(line, "tokenvault ")
	for !ok || !strings.HasPrefix(line, cmd.name) {
		if _, line, ok = strings.Cut(line, "tokenvault "); !ok {
			t.Errorf("%s: an example does not call it", cmd.name)
			return
		}
	}
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " < ")
	line = strings.TrimSuffix(line, ")")
	var args []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			args = append(args, part)
		} else {
			args = append(args, strings.Fields(part)...)
		}
	}
	found, rest, err := find(args)
	if err != nil || found != cmd && found.name != cmd.name {
		t.Errorf("%q: %v", line, err)
		return
	}
	must.Match(t, line, must.Err(p.parse(found, rest)), nil)
}

// TestEveryFlagHasAVariable sets a flag of each kind by its environment
// variable.
func TestEveryFlagHasAVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{"TOKENVAULT_DB": "x.db", "TOKENVAULT_JSON": "true", "TOKENVAULT_LIMIT": "7", "TOKENVAULT_METADATA": "a=b", "TOKENVAULT_TYPE": "card,bank"}
	p := &program{getenv: func(name string) string { return env[name] }}
	cmd, _, err := find([]string{"token", "list"})
	must.Do(t, err)
	c := must.Get(p.parse(cmd, []string{"--limit", "9"}))(t)
	if c.target.Path != "x.db" || !c.json || !c.given("limit") || !c.typed("limit") || c.typed("db") || !c.given("type") || c.given("url") {
		t.Errorf("%+v", c.sets)
	}
	must.Same(t, "way", inProcess, must.Get(c.way())(t))
}

func TestDiff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ before, after, want string }{
		{"a\nb\n", "a\nb\n", ""},
		{"", "a\n", "@@ -1 +1 @@|+a"},
		{"a\n", "", "@@ -1 +1 @@|-a"},
		{"a\nb\nc\n", "a\nx\nc\n", "@@ -1 +1 @@| a|-b|+x| c"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n", "1\n2\n3\n4\nx\n5\n6\n7\n8\n9\n", "@@ -2 +2 @@| 2| 3| 4|+x| 5| 6| 7"},
		{"1\n2\n3\n4\n5\n6\n7\n8\n9\n0\n", "x\n2\n3\n4\n5\n6\n7\n8\n9\n", "@@ -1 +1 @@|-1|+x| 2| 3| 4|@@ -7 +7 @@| 7| 8| 9|-0"},
	} {
		must.Same(t, c.before+" to "+c.after, c.want, strings.Join(manifest.Diff(c.before, c.after), "|"))
	}
	long := strings.Repeat("a\n", 3000)
	must.Same(t, "a long one", 6001, len(manifest.Diff(long, strings.Repeat("b\n", 3000))))
}

// TestCompletionOfAnyLine completes valid and invalid lines. It must never
// fail.
func TestCompletionOfAnyLine(t *testing.T) {
	t.Parallel()
	for _, line := range [][]string{nil, {""}, {"nonsense", ""}, {"token", "list", "--"}, {"token", "list", "x", "-"}, {"--db", "x", ""}} {
		var out bytes.Buffer
		if code := Run(context.Background(), append([]string{completeWord}, line...), func(string) string { return "" }, Streams{Out: &out, Err: &out}); code != 0 {
			t.Errorf("%q: exit %d\n%s", line, code, out.String())
		}
	}
}

// TestCommandsOnPages checks that the commands named on pages of the console
// exist, as commands or as groups of commands.
func TestCommandsOnPages(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../../../console/page/*.html")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	named := regexp.MustCompile(`<code>(?:.*/)?tokenvault ([a-z -]*[a-z])`)
	found := 0
	for _, page := range pages {
		text := must.Get(os.ReadFile(page))(t)
		for _, m := range named.FindAllStringSubmatch(string(text), -1) {
			found++
			if !slices.ContainsFunc(commands(), func(c *command) bool { return strings.HasPrefix(c.name+" ", m[1]+" ") }) {
				t.Errorf("%s names the command %q", page, m[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d commands are named", found)
	}
}
