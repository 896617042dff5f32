//go:build !race

package tampering

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var update = flag.Bool("update", false, "write the table to docs/security.md")

// change is what a writer of the database does to a row.
type change int

const (
	altered change = iota
	older          // a copy from before, of the same size too
	copied         // to another tenant or id
	deleted
	invented
	dropped // a trigger drops writes
	changes
)

// line describes what protects the rows of a table, or the records of a kind, and
// what each change does. docs/security.md has the same table. Verification in place
// must find a change whose text begins with "found", and no other.
type line struct {
	name, seals, bound string
	does               [changes]string
	// idle, if not nil, reports whether a change has no effect, because nothing reads
	// the row or the changed columns, or because the text allows it.
	idle func(m *mixture, is, was *logRow, genuine bool) bool
}

const (
	found    = "found"
	unopened = "refused: it does not open; alarm"
	fails    = "the call fails"
	totals   = "accepted: wrong totals"
	misses   = "accepted: lists and searches miss tokens"
	twice    = "no effect, but an outage may be in the log twice"
	resends  = "accepted: entries are sent again, or entries of new tenants are not sent"
	keyless  = "accepted: a key or a name is unknown"
	repeated = "accepted: the request takes effect again"
	noStart  = "accepted: the vault may refuse to start"
	dead     = "no effect: a tenant that has its keys is not deleted; alarm"
	stays    = "accepted: rows without keys stay"
	lists    = "accepted: wrong totals, and lists of the log that miss entries"
	resumes  = "accepted: it runs early, late, again, or not at all"
	logged   = "found, while the log has entries about its id"
	named    = "accepted: the tool does not warn that two tenants had a name"
)

func all(text, drop string) [changes]string {
	return [changes]string{text, text, text, text, text, drop}
}

// table has a line for every table of the schema and every kind of records.
var table = []line{
	{"vault_logs", "mac under the tenant's index key, over every field except the type in a read; a leaf", "tenant, id, every field", [changes]string{found, "found, unless the entry has expired", found, found, found, "alarm `missing` after 30 seconds"}, idleEntry},
	{"vault_log_leaves", "root in a head", "tenant, index", [changes]string{found, "found, unless its entries have expired", found, found, found, "alarm within a minute"}, idleLeaves},
	{"vault_log_nodes", "root in a head or a note", "tenant, level, index", all(found, found), idleNode},
	{"vault_log_trees", "mac under the index key of the tenant, or of the vault", "tenant, size, root, revision in a head", all(found, "alarm `lag` after a minute, `stalled` within an hour"), idleTenant},
	{"vault_log_events", "root in a note", "index", all(found, "alarm within a minute"), idleVault},
	{"vault_log_checkpoints", "signature; hash over all in the vault's tree", "size", all(found, found), idleVault},
	{"vault_tokens", "the tenant's data key", "tenant, id, type, containers, expiry, a digest of the other columns", [changes]string{unopened + ". The log may have the attempt to read it, with another type", "accepted, until the data keys are rotated", unopened, "accepted: the token is not found", unopened, "accepted: the token stays as it was, or is not found"}, nil},
	{"vault_token_hashes", "keyed hashes; the token has their digest", "tenant, token", [changes]string{"refused: a search does not show the token; alarm", misses, "refused: a search does not show the token; alarm", misses, "refused: a search does not show the token; alarm", misses}, nil},
	{"vault_container_sets", "keyed hash; the token has its containers", "tenant, paths", all(misses, misses), nil},
	{"vault_token_counts", "nothing", "nothing", all(totals, totals), nil},
	{"vault_log_counts", "nothing", "nothing", all(lists, lists), nil},
	{"vault_log_marks", "nothing", "nothing", all(totals, totals), nil},
	{"vault_lookups", "nothing; the record has its keys sealed", "nothing", [changes]string{"refused", keyless, "refused", keyless, "refused", keyless}, nil},
	{"vault_claims", "the tenant's data key, except owner, lease and expiry", "tenant, hash of the idempotency key", [changes]string{unopened + ". Owner, lease, expiry: " + repeated, repeated + ", or the older response is replayed", unopened, repeated, unopened, repeated}, nil},
	{"vault_jobs", "the tenant's data key, except times, attempts and lease", "tenant, id", [changes]string{unopened + ". Times, attempts, lease: " + resumes, "accepted: it runs again, with the rights of today", unopened, "accepted: it does not run", unopened, "accepted: it runs again, or not at all"}, nil},
	{"vault_migrations", "nothing", "nothing", all(noStart, noStart), nil},

	record("application", numbered),
	{"application_key", "the tenant's data key", "tenant, kind, id, hash of the key; the application lists its keys", [changes]string{unopened, "accepted: an older time of last use; a deleted key stays dead", unopened, "accepted: the key is unknown", unopened, "accepted: an older time of last use"}, nil},
	record("reactor", numbered),
	record("proxy", numbered),
	{"session", "the tenant's data key", "tenant, kind, id, keys, expiry, authorization and end in the log", [changes]string{logged, logged, logged, "accepted: the session ends", logged, fails}, numbered},
	{"tenant", "the tenant's data key", "tenant, kind, id, name, revision in the log", [changes]string{found, "found, while the log has its newest change", unopened, found, unopened, fails}, idleColumns("body")},
	{"ring", "the root, which the master key wraps", "tenant, revision in the log", [changes]string{found, found, "no effect", found, "no effect", fails}, idleColumns("body")},
	{root, "itself", "the number of wrappings", [changes]string{found, "accepted: a start needs the former master key", "no effect", found, "no effect", fails}, idleColumns("body")},
	{"tombstone", "nothing", "nothing", [changes]string{stays, dead, dead, stays, dead, stays}, nil},
	{"evidence", "the vault's own key", "kind, public keys in the vault's tree", [changes]string{found, found, "no effect", found, "no effect", fails}, idleColumns("body")},
	{"forward", "the vault's own key", "kind", [changes]string{unopened, "accepted: an authority that was replaced signs again", "no effect", "accepted: an authority is made that no client trusts", "no effect", fails}, nil},
	{"key_state", "the vault's own key", "kind, times of the outage", all(twice, twice), nil},
	{"own_key_state", "the vault's own key", "tenant, kind, times of the outage", all(twice, twice), nil},
	{"sink", "nothing", "nothing", all(resends, resends), nil},
	{"sink_cursor", "the tenant's data key", "tenant, kind, id", [changes]string{unopened, "accepted: entries are sent again", unopened, resends, unopened, "accepted: entries are sent again"}, nil},
	{"erasure", "the tenant's data key", "tenant, kind, id", [changes]string{unopened, "accepted: a stored response with a later token of the same id is not replayed", unopened, "accepted: a stored response with an erased token may stay", unopened, "accepted: a stored response with an erased token may stay"}, nil},
	{"former_name", "keyed hash under the vault's own key", "name, tenant", all(named, named), nil},
}

// record is the line of records whose revisions are logged.
func record(kind string, idle func(*mixture, *logRow, *logRow, bool) bool) line {
	return line{kind, "the tenant's data key", "tenant, kind, id, name, keys, expiry, revision in the log", all(logged, fails), idle}
}

// root is the name of the vault's own ring, whose record has the root.
const root = "root"

// text returns the line of the document.
func (l *line) text() string {
	name := "`" + l.name + "`"
	if l.name == root {
		name = "record `ring` of the vault, with the root"
	} else if !strings.HasPrefix(l.name, "vault_") {
		name = "record " + name
	}
	return "| " + strings.Join(append([]string{name, l.seals, l.bound}, l.does[:]...), " | ") + " |"
}

// line returns the name of the line of a row.
func (r *logRow) line() string {
	if r.kind() == "ring" && r.tenant() == (uuid.UUID{}) {
		return root
	}
	return cmp.Or(r.kind(), r.table)
}

// lineOf returns the line of a row. A record of a kind that no program declares has
// the line of a kind that nothing reads.
func lineOf(r *logRow) *line {
	i := slices.IndexFunc(table, func(l line) bool { return l.name == r.line() })
	if i < 0 {
		return &line{does: all("no effect", "no effect")}
	}
	return &table[i]
}

// changeOf returns what was done to a row.
func (m *mixture) changeOf(key string) change {
	is, was, before := m.rows[key], m.b.rows[key], m.a.rows[key]
	switch {
	case is == nil:
		return deleted
	case before != nil && is.equal(before):
		return older
	case was != nil:
		return altered
	default:
		return invented
	}
}

// mustFind reports whether verification in place must find a change of a row.
func (m *mixture) mustFind(key string) bool {
	is, was, how := m.rows[key], m.b.rows[key], m.changeOf(key)
	row := cmp.Or(is, was)
	if row.tenant() == m.gone {
		return m.back() // without its keys and its settings, nothing of it is read
	}
	l := lineOf(row)
	return strings.HasPrefix(l.does[how], found) && (l.idle == nil || !l.idle(m, is, was, how == older))
}

// exists reports whether a tenant exists.
func (m *mixture) exists(tenant uuid.UUID) bool {
	return slices.Contains(append(slices.Clone(m.living), m.young), tenant)
}

func idleTenant(m *mixture, is, was *logRow, _ bool) bool {
	tenant := cmp.Or(is, was).tenant()
	return tenant != uuid.UUID{} && !m.exists(tenant)
}

func idleVault(_ *mixture, is, was *logRow, _ bool) bool {
	return cmp.Or(is, was).tenant() != uuid.UUID{}
}

func idleEntry(m *mixture, is, was *logRow, genuine bool) bool {
	row := cmp.Or(is, was)
	return !m.exists(row.tenant()) || was == nil && genuine && evidence.Millis(row.entry()) < m.cutoff
}

func idleLeaves(m *mixture, is, was *logRow, genuine bool) bool {
	return !m.exists(cmp.Or(is, was).tenant()) || was == nil && genuine || m.ofExpired(is, was)
}

func idleNode(m *mixture, is, was *logRow, genuine bool) bool {
	level := cmp.Or(is, was).value("level")
	return !slices.Contains([]any{int64(8), int64(16), int64(24)}, level) || idleTenant(m, is, was, genuine)
}

// idleColumns is for a row of which nothing but some columns is read.
func idleColumns(names ...string) func(*mixture, *logRow, *logRow, bool) bool {
	return func(m *mixture, is, was *logRow, _ bool) bool {
		row := cmp.Or(is, was)
		if was == nil || row.tenant() != (uuid.UUID{}) && !m.exists(row.tenant()) {
			return true
		}
		return is != nil && !slices.ContainsFunc(m.columns(row.key()), func(name string) bool { return slices.Contains(names, name) })
	}
}

// numbered is for records whose revisions are in the log.
func numbered(m *mixture, is, was *logRow, _ bool) bool {
	if !m.logged(cmp.Or(is, was)) {
		return true
	}
	return is != nil && was != nil && idleColumns("body", "name", "key_hash", "alt_hash", "expires_at", "created_at")(m, is, was, false)
}

// Every table of the schema and every kind of records that the code declares has a
// line, and no other does. The document has the same lines.
func TestEveryTableAndKindHasALine(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range table {
		lines = append(lines, table[i].name)
	}
	attack(t, func(a *attacked) {
		want := append(append(a.tables(), seal.RecordKinds()...), root)
		want = slices.DeleteFunc(want, func(name string) bool { return name == "vault_records" })
		for _, name := range want {
			if n := len(slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return l != name })); n != 1 {
				a.Errorf("%s has %d lines", name, n)
			}
		}
		for _, name := range lines {
			if !slices.Contains(want, name) && (a.pg || name != "vault_log_marks") {
				a.Errorf("%s has a line, and does not exist", name)
			}
		}
	})
	path := filepath.Join("..", "..", "..", "docs", "security.md")
	text := must.Get(os.ReadFile(path))(t)
	const begin = "|---|---|---|---|---|---|---|---|---|\n"
	head, rest, ok := bytes.Cut(text, []byte(begin))
	end := bytes.Index(rest, []byte("\n\n"))
	if !ok || end < 0 {
		t.Fatal("docs/security.md has no such table")
	}
	var doc strings.Builder
	for i := range table {
		fmt.Fprintln(&doc, table[i].text())
	}
	if *update {
		must.Do(t, os.WriteFile(path, slices.Concat(head, []byte(begin+doc.String()), rest[end+1:]), 0o644))
		return
	}
	must.Same(t, "the table of docs/security.md", doc.String(), string(rest[:end+1]))
}
