package cli

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// version is the version of the program.
type version struct {
	Version  string         `json:"version"`
	Commit   string         `json:"commit,omitempty"`
	Modified bool           `json:"modified,omitempty"` // after the commit
	Go       string         `json:"go"`
	Schema   map[string]int `json:"schema"` // the newest migration of each database
}

// newVersion returns the version from the build information.
func newVersion(info *debug.BuildInfo) version {
	v := version{Version: "unknown", Go: runtime.Version(), Schema: map[string]int{
		"sqlite": newest(sqlite.Migrations()), "postgres": newest(postgres.Migrations("")),
	}}
	if info == nil {
		return v
	}
	v.Version = cmp.Or(info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

// newest returns the version of the last migration.
func newest(all []storage.Migration) int { return all[len(all)-1].Version }

// String returns the version for people.
func (v version) String() string {
	commit := cmp.Or(v.Commit, "unknown")
	if v.Modified {
		commit += " with changes"
	}
	return fmt.Sprintf("tokenvault %s\ncommit  %s\nschema  sqlite %d, postgres %d\nbuilt   with %s", v.Version, commit, v.Schema["sqlite"], v.Schema["postgres"], v.Go)
}

func versionCommand() *command {
	return &command{
		name: "version", summary: "print the version, the commit and the schema of this program",
		about: `The schema is the newest migration that the program has for each database;
			tokenvault migrate status compares it with a database.`,
		example: "tokenvault version --json",
		setup: func(f *flag.FlagSet) action {
			asJSON := f.Bool("json", false, "print one JSON object per line")
			return func(c *call) error {
				info, _ := debug.ReadBuildInfo()
				v := newVersion(info)
				if *asJSON {
					return writeJSON(c.Out, v)
				}
				_, err := fmt.Fprintln(c.Out, v)
				return err
			}
		},
	}
}
