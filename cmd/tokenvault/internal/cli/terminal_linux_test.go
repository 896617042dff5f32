package cli_test

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/cli"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/terminaltest"
)

var progressForm = regexp.MustCompile(`^Importing  \[=* *\]  [\d,]+ rows  [\d,]+/s  (\d+h)?(\d+m)?\d+s left  \d+s$`)

// If standard error is a terminal, an import shows a bar with the rows, the
// rate and the remaining time. It fits the width and is erased at the end.
func TestProgressOfAnImport(t *testing.T) {
	t.Parallel()
	const rows = 300 // the bar appears after the first hundred
	w := newToolVault(t, local)
	var file strings.Builder
	for n := range rows {
		fmt.Fprintf(&file, `{"type":"token","id":"row-%d","data":"x"}`+"\n", n)
	}
	path := w.path("rows.jsonl", file.String())
	for _, width := range []int{100, 40} {
		d := terminaltest.New(t, width)
		var out bytes.Buffer
		code := w.runTo(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: d.TTY}, "import", path, "--on-duplicate", "skip")
		drawn := d.Finish()
		if code != 0 || !strings.HasPrefix(out.String(), "Imported 300 rows: ") {
			t.Errorf("exit %d\n%s%s", code, out.String(), drawn)
		}
		must.Same(t, "left on the screen", "", terminaltest.Screen(drawn))
		bars := 0
		for _, state := range terminaltest.States(drawn) {
			if utf8.RuneCountInString(state) >= width {
				t.Errorf("%q is too long for %d columns", state, width)
			}
			if progressForm.MatchString(state) {
				bars++
			}
		}
		if width == 100 && bars == 0 {
			t.Errorf("no progress: %q", terminaltest.States(drawn))
		}
	}
	var out, problems bytes.Buffer
	w.runTo(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &problems}, "import", path, "--on-duplicate", "skip")
	if problems.Len() > 0 {
		t.Errorf("without a terminal there is %q", problems.String())
	}
}

// TestQuestions replies to the confirmations of irreversible actions and of
// plaintext output.
func TestQuestions(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	w.must("token", "create", "--data", "secret-value", "--id", "tok-1")
	for _, c := range []struct {
		args   []string
		answer string
		code   int
		shows  string
		hides  string
	}{
		{[]string{"detokenize", "{{ tok-1 }}"}, "n\n", 1, "plaintext on the terminal", "secret-value"},
		{[]string{"detokenize", "{{ tok-1 }}"}, "\n", 1, "nothing was done", "secret-value"},
		{[]string{"detokenize", "{{ tok-1 }}"}, "y\n", 0, "secret-value", "nothing was done"},
		{[]string{"detokenize", "{{ tok-1 }}", "--yes"}, "", 0, "secret-value", "[y/N]"},
		{[]string{"export", "--clear"}, "no\n", 1, "plaintext of tokens. Continue? [y/N]", "secret-value"},
		{[]string{"export", "--clear"}, "yes\n", 0, "secret-value", "nothing was done"},
		{[]string{"export", "--recipient", "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p"}, "", 2, "not for a terminal", "secret-value"},
		{[]string{"token", "delete", "tok-1"}, "n\n", 1, "Delete 1 token? [y/N]", "Deleted"},
		{[]string{"token", "delete", "tok-1"}, "y\n", 0, "Deleted the token tok-1.", "nothing"},
	} {
		d := terminaltest.New(t, 80)
		d.Type(c.answer)
		code := w.runTo(t.Context(), cli.Streams{In: d.TTY, Out: d.TTY, Err: d.TTY}, c.args...)
		if drawn := d.Finish(); code != c.code || !strings.Contains(drawn, c.shows) || strings.Contains(drawn, c.hides) {
			t.Errorf("%v, answered %q: exit %d\n%s", c.args, c.answer, code, drawn)
		}
	}
}

// TestTablesFitTheTerminal prints a wide table on narrow terminals.
func TestTablesFitTheTerminal(t *testing.T) {
	t.Parallel()
	w := newToolVault(t, local)
	for _, width := range []int{120, 80, 60} {
		d := terminaltest.New(t, width)
		code := w.runTo(t.Context(), cli.Streams{In: strings.NewReader(""), Out: d.TTY, Err: d.TTY}, "app", "list")
		drawn := d.Finish()
		shown := terminaltest.Colour.ReplaceAllString(drawn, "")
		if code != 0 || !strings.Contains(shown, "…") || !terminaltest.Colour.MatchString(drawn) {
			t.Errorf("%d columns: exit %d\n%s", width, code, drawn)
		}
		for line := range strings.SplitSeq(shown, "\r\n") {
			if utf8.RuneCountInString(line) >= width {
				t.Errorf("%d columns: %q", width, line)
			}
		}
	}
}
