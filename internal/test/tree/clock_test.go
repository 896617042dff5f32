// Package tree_test checks the repository as a whole: its clocks, and its modules as
// programs get them.
package tree_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// top is the folder of the repository.
const top = "../../.."

// Reasons to read the clock of the machine. Everything else uses the clock of the vault,
// vault.Config.Now: what is stored, what expires, and what a caller sees as a time.
const (
	elapsed  = "measures how long something takes, or how old what this process has read is"
	deadline = "sets a deadline of a connection or a call"
	initial  = "is the default of the clock"
	person   = "shows a person the time of this machine, or reads a time that a person gives"
	peer     = "signs or checks a time that another program compares with its own clock"
	foreign  = "is compared with a time from the database or the file system"
)

// machineTime lists the folders that use time.Now, how often, and why.
var machineTime = map[string]struct {
	uses int
	why  []string
}{
	".":                               {2, []string{initial, peer}},
	"cmd/tokenvault/internal/cli":     {10, []string{elapsed, person}},
	"cmd/tokenvault/internal/doctor":  {5, []string{foreign}},
	"elements":                        {1, []string{deadline}},
	"console":                         {12, []string{elapsed, person, deadline, initial}},
	"examples/checkout":               {2, []string{initial}},
	"examples/service":                {1, []string{elapsed}},
	"httpserver":                      {14, []string{elapsed, deadline}},
	"internal/admission":              {2, []string{elapsed}},
	"internal/core":                   {2, []string{elapsed}},
	"internal/egress":                 {5, []string{elapsed, deadline}},
	"internal/notary":                 {3, []string{elapsed}},
	"internal/expr":                   {1, []string{initial}},
	"internal/fault":                  {1, []string{deadline}},
	"internal/logs":                   {1, []string{elapsed}},
	"internal/keyring":                {6, []string{elapsed}},
	"internal/ledger":                 {6, []string{elapsed}},
	"internal/relay":                  {5, []string{elapsed, deadline}},
	"internal/rotation":               {2, []string{elapsed}},
	"internal/runs":                   {3, []string{elapsed, peer}},
	"internal/serve":                  {4, []string{elapsed, initial}},
	"internal/sinks":                  {3, []string{elapsed, peer, initial}},
	"internal/tenants":                {1, []string{elapsed}},
	"internal/terminal":               {1, []string{elapsed}},
	"internal/trace":                  {1, []string{person}},
	"internal/transfer":               {1, []string{elapsed}},
	"jsruntime/internal/node":         {4, []string{elapsed}},
	"jsruntime/internal/workers":      {2, []string{elapsed, deadline}},
	"otelvault":                       {2, []string{elapsed}},
	"storage":                         {1, []string{elapsed}},
	"storage/internal/sqlstore":       {4, []string{elapsed, deadline}},
	"storage/postgres":                {14, []string{elapsed, deadline, foreign, initial}},
	"storage/postgres/internal/citus": {4, []string{elapsed, deadline}},
	"storage/postgres/internal/link":  {4, []string{elapsed, deadline}},
	"storage/sqlite":                  {8, []string{elapsed, deadline, foreign}},
	"vaultkms/execkey":                {1, []string{elapsed}},
	"vaultoidc":                       {1, []string{peer}},
	"vaultmetrics":                    {1, []string{elapsed}},
}

// TestClock finds code that reads the clock of the machine. A new use in a folder of the
// list must have one of its reasons.
func TestClock(t *testing.T) {
	t.Parallel()
	places := map[string][]string{}
	for _, file := range sources(t) {
		folder := filepath.ToSlash(filepath.Dir(file))
		set := token.NewFileSet()
		parsed := must.Get(parser.ParseFile(set, filepath.Join(top, file), nil, parser.SkipObjectResolution))(t)
		ast.Inspect(parsed, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok && folder != "cmd/tokenvault/internal/doctor" && agesStored(call) {
				t.Errorf("%s:%d compares a stored time with the clock of the machine. Use the clock of the vault.", file, set.Position(n.Pos()).Line)
			}
			if s, ok := n.(*ast.SelectorExpr); ok && ofTime(s, "Now") {
				places[folder] = append(places[folder], fmt.Sprint(file, ":", set.Position(s.Pos()).Line))
			}
			return true
		})
	}
	for folder, found := range places {
		if may := machineTime[folder]; len(found) != may.uses {
			t.Errorf("%s uses time.Now %d times instead of %d. Use the clock of the vault, or count the use in machineTime with its reason:\n%s",
				folder, len(found), may.uses, strings.Join(found, "\n"))
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(machineTime)) {
		if len(places[folder]) == 0 {
			t.Errorf("machineTime lists %s, which does not use time.Now", folder)
		}
	}
}

// ofTime reports whether a selector is one of these functions of package time.
func ofTime(s *ast.SelectorExpr, names ...string) bool {
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "time" && slices.Contains(names, s.Sel.Name)
}

// agesStored reports whether a call is time.Since or time.Until of an exported field, such
// as CreatedAt, or of what a method of one returns. Such a time is from a row. What a
// process measures with its own clock is in variables and unexported fields.
func agesStored(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !ofTime(f, "Since", "Until") {
		return false
	}
	arg := call.Args[0]
	if inner, ok := arg.(*ast.CallExpr); ok {
		arg = inner.Fun
	}
	s, ok := arg.(*ast.SelectorExpr)
	if !ok || !s.Sel.IsExported() || s.Sel.Name == "Add" {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return !ok || x.Name != "time" && x.Name != "link" // packages
}

// sources returns the Go files of all modules, without tests and their tools.
func sources(t *testing.T) []string {
	t.Helper()
	var files []string
	must.Do(t, filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		rel := must.Get(filepath.Rel(top, path))(t)
		hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".."
		switch {
		case err != nil:
			return err
		case d.IsDir() && (hidden || d.Name() == "testdata" || rel == "internal/test" || rel == "storage/storagetest"):
			return fs.SkipDir
		case strings.HasSuffix(rel, ".go") && !strings.HasSuffix(rel, "_test.go"):
			files = append(files, filepath.ToSlash(rel))
		}
		return nil
	}))
	return files
}
