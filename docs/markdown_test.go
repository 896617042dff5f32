// Package docs_test checks the documentation: it runs the commands of the
// documents, builds their Go, runs their JavaScript, follows their links, and
// repeats their measurements.
package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// block is a fenced block of a document.
type block struct {
	file string
	line int // of the opening fence; the first line is 1
	lang string
	text string
	// adjacent is whether only blank lines are between this block and the block
	// before it.
	adjacent bool
}

// documents returns the Markdown files for readers, relative to this folder.
func documents(t testing.TB) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"../*.md", "*.md", "../examples/*/*.md"} {
		found := must.Get(filepath.Glob(pattern))(t)
		all = append(all, found...)
	}
	if len(all) < 5 {
		t.Fatalf("found only %d documents: %v", len(all), all)
	}
	return all
}

func readText(t testing.TB, file string) string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return string(text)
}

// blocksOf returns the fenced blocks of a document.
func blocksOf(t testing.TB, file string) []block {
	t.Helper()
	var all []block
	var open *block
	adjacent := false
	for i, line := range strings.Split(readText(t, file), "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case open == nil && fence:
			open = &block{file: file, line: i + 1, lang: strings.TrimSpace(strings.TrimPrefix(line, "```")), adjacent: adjacent}
		case open != nil && fence:
			all = append(all, *open)
			open, adjacent = nil, true
		case open != nil:
			open.text += line + "\n"
		case strings.TrimSpace(line) != "":
			adjacent = false
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: the block has no end", file, open.line)
	}
	return all
}
