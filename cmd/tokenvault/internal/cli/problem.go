package cli

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
)

// interrupted is the error of a command that a signal has ended.
type interrupted struct {
	what string // what was in progress
	hint string // how to continue, if possible
}

func (e *interrupted) Error() string {
	text := "interrupted"
	if e.what != "" {
		text += " " + e.what
	}
	if e.hint != "" {
		text += "\n" + e.hint
	}
	return text
}

// ended returns err, or an interrupted error if a signal caused err.
func ended(ctx context.Context, err error) error {
	var already *interrupted
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return &interrupted{}
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

// told returns the text of an error for a person at a shell. It has no
// package names and no repetitions, and uses the names of flags for settings.
func told(err error) string {
	text := fault.Text(err)
	if errors.Is(err, vault.ErrWrongKey) { // the cipher's error adds nothing
		_, hint, _ := strings.Cut(text, "\n")
		text = strings.TrimSpace(vault.ErrWrongKey.Error() + "\n" + hint)
	}
	return goNames.Replace(packagePrefix.ReplaceAllString(text, "$1"))
}

// suggestion returns the known word that is most similar to a misspelled
// word, or "".
func suggestion(word string, known []string) string {
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

// unknownCommand returns the error for a command that does not exist.
func unknownCommand(args []string) error {
	var names, first []string
	for _, cmd := range commands() {
		names = append(names, cmd.name)
		word, _, _ := strings.Cut(cmd.name, " ")
		first = append(first, word)
	}
	meant := ""
	if len(args) > 1 {
		meant = suggestion(args[0]+" "+args[1], names)
	}
	if meant == "" {
		meant = suggestion(args[0], slices.Concat(first, names))
	}
	if meant == "" {
		return usagef("unknown command; see tokenvault --help")
	}
	return usagef("unknown command; did you mean tokenvault %s? See tokenvault --help", meant)
}

// tokenTypes are the types of tokens.
var tokenTypes = []string{
	string(vault.TypeGeneric), string(vault.TypeCard), string(vault.TypeBank), string(vault.TypeCardNumber), string(vault.TypeUSBankAccountNumber),
	string(vault.TypeUSBankRoutingNumber), string(vault.TypeSocialSecurityNumber), string(vault.TypeEmployerIDNumber),
}

// checkType checks the value of a --type flag.
func checkType(typ string) error {
	if typ == "" || slices.Contains(tokenTypes, typ) {
		return nil
	}
	if meant := suggestion(typ, tokenTypes); meant != "" {
		return usagef("--type is not a type of tokens; did you mean %s?", meant)
	}
	return usagef("--type is one of: %s", strings.Join(tokenTypes, ", "))
}
