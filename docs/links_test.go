package docs_test

import (
	"flag"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var (
	linkForm    = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)`)
	headingForm = regexp.MustCompile(`^#{1,6} (.+)$`)
	testName    = regexp.MustCompile("`((?:Test|Example|Fuzz|Benchmark)\\w*)`")

	testDeclared = regexp.MustCompile(`(?m)^func ((?:Test|Example|Fuzz|Benchmark)\w*)\(`)
)

// link is a link of a document.
type link struct{ file, text, target string }

// prose returns a document without its fenced blocks.
func prose(t *testing.T, file string) string {
	t.Helper()
	var out strings.Builder
	fenced := false
	for line := range strings.Lines(readText(t, file)) {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			out.WriteString(line)
		}
	}
	return out.String()
}

func linksOf(t *testing.T) []link {
	t.Helper()
	var all []link
	for _, file := range documents(t) {
		for _, m := range linkForm.FindAllStringSubmatch(prose(t, file), -1) {
			all = append(all, link{file, m[1], m[2]})
		}
	}
	return all
}

// anchorsOf returns the anchors that GitHub gives to the headings of a document.
func anchorsOf(t *testing.T, file string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(prose(t, file)) {
		m := headingForm.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		base := anchor(m[1])
		name := base
		for i := 1; all[name]; i++ {
			name = base + "-" + strconv.Itoa(i)
		}
		all[name] = true
	}
	return all
}

func anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(heading) {
		switch {
		case r == ' ':
			out.WriteRune('-')
		case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r > 127:
			out.WriteRune(r)
		}
	}
	return out.String()
}

// tests returns the names of the tests that a link names.
func (l link) tests() (names []string) {
	if strings.HasSuffix(l.target, "_test.go") {
		for _, m := range testName.FindAllStringSubmatch(l.text, -1) {
			names = append(names, m[1])
		}
	}
	return names
}

// TestLinksResolve follows every link within the repository. TestNamedTestsExist
// follows the links to tests.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, l := range linksOf(t) {
		u, err := url.Parse(l.target)
		if err != nil {
			t.Errorf("%s: the link to %s is not a URL", l.file, l.target)
			continue
		}
		if u.Scheme != "" || len(l.tests()) > 0 {
			continue
		}
		file := l.file
		if u.Path != "" {
			file = filepath.Join(filepath.Dir(l.file), filepath.FromSlash(u.Path))
		}
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s: the link to %s leads nowhere", l.file, l.target)
		} else if u.Fragment != "" && !anchorsOf(t, file)[u.Fragment] {
			t.Errorf("%s: %s has no heading #%s", l.file, file, u.Fragment)
		}
	}
}

var update = flag.Bool("update", false, "point links at the files that their tests are in now")

// TestNamedTestsExist looks for every test that a link names in the linked file.
// After tests have moved, it corrects the links:
//
//	go test ./docs -run TestNamedTestsExist -update
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	home := filesOfTests(t)
	moved := map[string][]string{} // by document: old and new links, in turns
	checked := 0
	for _, l := range linksOf(t) {
		folder := absolute(t, filepath.Dir(l.file))
		linked := filepath.Join(folder, filepath.FromSlash(l.target))
		for _, name := range l.tests() {
			if checked++; slices.Contains(home[name], linked) {
				continue
			}
			file, err := newHome(name, linked, home[name])
			if err != nil {
				t.Errorf("%s: %v", l.file, err)
				continue
			}
			target := must.Get(filepath.Rel(folder, file))(t)
			target = filepath.ToSlash(target)
			if !*update {
				t.Errorf("%s: %s is no longer in %s but in %s; run this test with -update", l.file, name, l.target, target)
			}
			moved[l.file] = append(moved[l.file], "["+l.text+"]("+l.target+")", "["+l.text+"]("+target+")")
		}
	}
	if checked < 80 {
		t.Errorf("found only %d tests in links", checked)
	}
	if *update {
		rewrite(t, moved)
	}
}

// newHome returns the file that a test has moved to: the only file with a test of
// this name, or the only such file in the old folder.
func newHome(name, old string, files []string) (string, error) {
	beside := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return filepath.Dir(f) != filepath.Dir(old) })
	switch {
	case len(beside) == 1:
		return beside[0], nil
	case len(files) == 1:
		return files[0], nil
	case len(files) == 0:
		return "", fmt.Errorf("%s does not exist; it was in %s", name, old)
	}
	return "", fmt.Errorf("%s is no longer in %s; link to one of %s", name, old, strings.Join(files, ", "))
}

// rewrite replaces links in documents.
func rewrite(t *testing.T, links map[string][]string) {
	t.Helper()
	for file, pairs := range links {
		text := strings.NewReplacer(pairs...).Replace(readText(t, file))
		must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	must.Do(t, err)
	return path
}

// filesOfTests returns the files of this repository that declare each test.
func filesOfTests(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	err := filepath.WalkDir(absolute(t, ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		for _, m := range testDeclared.FindAllStringSubmatch(readText(t, path), -1) {
			all[m[1]] = append(all[m[1]], path)
		}
		return nil
	})
	must.Do(t, err)
	if len(all) < 100 {
		t.Fatalf("found only %d tests", len(all))
	}
	return all
}

// TestEveryDocumentIsLinked checks that a link leads to each document of this
// folder.
func TestEveryDocumentIsLinked(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for _, l := range linksOf(t) {
		path, _, _ := strings.Cut(l.target, "#")
		linked[absolute(t, filepath.Join(filepath.Dir(l.file), filepath.FromSlash(path)))] = true
	}
	for _, file := range documents(t) {
		if filepath.Dir(file) == "." && !linked[absolute(t, file)] {
			t.Errorf("no document links to %s", file)
		}
	}
}

var flagForm = regexp.MustCompile(`\.(?:String|Bool|Int|Duration)Var\(&[^,]+, "([^"]+)"`)

// TestEveryFlagIsDocumented compares the flags of examples/server with
// operations.md and http.md.
func TestEveryFlagIsDocumented(t *testing.T) {
	t.Parallel()
	text := readText(t, "operations.md") + readText(t, "http.md")
	flags := flagForm.FindAllStringSubmatch(readText(t, "../internal/serve/config.go"), -1)
	if len(flags) < 9 {
		t.Fatalf("found only %d flags", len(flags))
	}
	for _, f := range flags {
		must.Contain(t, "-"+f[1]+" is in neither operations.md nor http.md", text, "`-"+f[1]+"`")
	}
}
