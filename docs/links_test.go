package docs_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	linkForm    = regexp.MustCompile(`\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)`)
	headingForm = regexp.MustCompile(`^#{1,6} (.+)$`)
	testName    = regexp.MustCompile("^`((?:Test|Example|Fuzz|Benchmark)\\w*)`$")
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

// TestLinksResolve follows every link that stays within the repository.
func TestLinksResolve(t *testing.T) {
	t.Parallel()
	for _, l := range linksOf(t) {
		u, err := url.Parse(l.target)
		if err != nil {
			t.Errorf("%s: the link to %s is no URL", l.file, l.target)
			continue
		}
		if u.Scheme != "" {
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

// TestNamedTestsExist looks for every test that a link names, in the file that
// it links to.
func TestNamedTestsExist(t *testing.T) {
	t.Parallel()
	for _, l := range linksOf(t) {
		name := testName.FindStringSubmatch(l.text)
		if name == nil || !strings.HasSuffix(l.target, "_test.go") {
			continue
		}
		file := filepath.Join(filepath.Dir(l.file), filepath.FromSlash(l.target))
		if !strings.Contains(readText(t, file), "\nfunc "+name[1]+"(") {
			t.Errorf("%s: %s has no %s", l.file, l.target, name[1])
		}
	}
}

// TestEveryDocumentIsFound makes sure that a reader of the README gets to each
// document of this folder.
func TestEveryDocumentIsFound(t *testing.T) {
	t.Parallel()
	linked := map[string]bool{}
	for _, l := range linksOf(t) {
		path, _, _ := strings.Cut(l.target, "#")
		linked[filepath.Join(filepath.Dir(l.file), filepath.FromSlash(path))] = true
	}
	for _, file := range documents(t) {
		if filepath.Dir(file) == "." && !linked[file] {
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
	flags := flagForm.FindAllStringSubmatch(readText(t, "../examples/server/main.go"), -1)
	if len(flags) < 9 {
		t.Fatalf("found only %d flags", len(flags))
	}
	for _, f := range flags {
		if !strings.Contains(text, "`-"+f[1]+"`") {
			t.Errorf("-%s is in neither operations.md nor http.md", f[1])
		}
	}
}
