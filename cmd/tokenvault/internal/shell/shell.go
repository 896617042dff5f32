// Package shell writes text for a person at a shell: tables, errors, numbers.
package shell

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// UsageError is an error in the arguments of the program.
type UsageError struct{ text string }

func (e *UsageError) Error() string { return e.text }

// Usagef returns a UsageError.
func Usagef(format string, args ...any) error {
	return &UsageError{fmt.Sprintf(format, args...)}
}

// PrintTable prints rows; the first one is the header. If the output is a
// terminal, the table fits its width.
func PrintTable(w io.Writer, p terminal.Palette, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	if columns, ok := terminal.Columns(w); ok && columns > 0 {
		fit(widths, columns-1)
	}
	for n, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			cell = shorten(cell, widths[i])
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)) + Gap)
			}
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 {
			text = p.Bold(text)
		}
		_, _ = fmt.Fprintln(w, text)
	}
}

// fit narrows the widest columns until the table is no wider than room.
func fit(widths []int, room int) {
	for {
		sum, widest := (len(widths)-1)*len(Gap), 0
		for i, width := range widths {
			sum += width
			if width > widths[widest] {
				widest = i
			}
		}
		if sum <= room || widths[widest] <= narrowest {
			return
		}
		widths[widest]--
	}
}

// shorten truncates a text to a width and marks that with an ellipsis.
func shorten(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:max(width-1, 0)]) + "…"
}

// Printable replaces control characters, which could manipulate the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// WriteJSON writes a value as one line of JSON.
func WriteJSON(w io.Writer, x any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(x)
}

// Gap is the space between columns.
const Gap = "  "

// narrowest is the minimum width of a column that is narrowed to fit the
// terminal.
const narrowest = 8

// TimeText returns a time for a table.
func TimeText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// packagePrefix matches the package names at the start of errors.
var packagePrefix = regexp.MustCompile(`(^|: |\n)(?:(?:vault|vaultclient|httpserver|jsruntime|postgres|sqlite|serve|console|pq|age|openpgp): )+`)

// goNames replaces the Go names of settings in errors by the names of flags.
var goNames = strings.NewReplacer(
	"see Options.AllowPlainHTTP", "--allow-plain-http allows it",
	"; turn it on, or set Options.AllowAsyncCommit", "; turn it on",
	"set Options.TransactionPooler (-pooler of the server)", "give --pooler",
	", and, unless Options.Migrate is MigrateCheck, to create them", ", and tokenvault migrate up must be allowed to create them",
	"set Options.Schema", "give --schema", "Options.MaxConns", "--max-conns", "Options.Prefix", "--prefix", "in Options.Origins", "in --cors-origins",
	", or raise Options.MaxAnswer", "", "the option AllowHTTP", "--allow-http-sinks",
)

// Told returns the text of an error for a person at a shell. It has no
// package names and no repetitions, and uses the names of flags for settings.
func Told(err error) string {
	text := fault.Text(err)
	if errors.Is(err, vault.ErrWrongKey) { // the cipher's error adds nothing
		_, hint, _ := strings.Cut(text, "\n")
		text = strings.TrimSpace(vault.ErrWrongKey.Error() + "\n" + hint)
	}
	return goNames.Replace(packagePrefix.ReplaceAllString(text, "$1"))
}

// Suggestion returns the known word that is most similar to a misspelled
// word, or "".
func Suggestion(word string, known []string) string {
	best, least := "", 3 // at most two typing errors
	for _, k := range known {
		if d := distance(word, k); d < least && d < len(k)/2+1 {
			best, least = k, d
		}
	}
	return best
}

// distance returns how many characters must be inserted, deleted, replaced,
// or swapped with a neighbor to turn a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			rows[i][j] = min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], rows[i-2][j-2]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}

// Counted returns a number with a noun, in the plural if needed.
func Counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return strconv.Itoa(n) + " " + thing
}

// Grouped returns a number with thousands separators.
func Grouped(n int) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// ByteText returns a size as text.
func ByteText(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// FirstLine returns the first line of an error.
func FirstLine(err error) string {
	line, _, _ := strings.Cut(fault.Text(err), "\n")
	return line
}

// Paragraphs splits a text at empty lines.
func Paragraphs(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "":
			all = append(all, "")
		case len(all) == 0:
			all = append(all, line)
		default:
			all[len(all)-1] += " " + line
		}
	}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}

// Wrapped breaks a text into lines.
func Wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// ReadFile reads a file that is not too large for the memory.
func ReadFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxManifest {
		return nil, fmt.Errorf("the file has more than %d MiB", maxManifest>>20)
	}
	return os.ReadFile(filepath.Clean(path))
}

// maxManifest is the maximum size of a file that ReadFile reads.
const maxManifest = 8 << 20

// ParseTime parses the value of a flag: a date, a time, or a duration relative to now. The sign is
// 1 for durations after now and -1 for durations before. An empty text is the
// zero time.
func ParseTime(name, text string, now time.Time, sign int) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return now.AddDate(0, 0, sign*n), nil
		}
	}
	if d, err := time.ParseDuration(text); err == nil {
		return now.Add(time.Duration(sign) * d), nil
	}
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, Usagef("--%s takes a time such as 2026-01-31T09:00:00Z, a date, or a duration such as 90m, 24h or 7d", name)
}

// tokenTypes are the types of tokens.
var tokenTypes = []string{
	string(vault.TypeGeneric), string(vault.TypeCard), string(vault.TypeBank), string(vault.TypeCardNumber), string(vault.TypeUSBankAccountNumber),
	string(vault.TypeUSBankRoutingNumber), string(vault.TypeSocialSecurityNumber), string(vault.TypeEmployerIDNumber),
}

// CheckType checks the value of a --type flag.
func CheckType(typ string) error {
	if typ == "" || slices.Contains(tokenTypes, typ) {
		return nil
	}
	if meant := Suggestion(typ, tokenTypes); meant != "" {
		return Usagef("--type is not a type of tokens; did you mean %s?", meant)
	}
	return Usagef("--type is one of: %s", strings.Join(tokenTypes, ", "))
}
