//go:build long && !race

package sim

import (
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

var (
	mutantNames = flag.String("mutants", "", "run only the mutants whose names begin with one of these words, separated by commas")
	mutantsFor  = flag.Duration("mutants-for", 0, "how long the simulator looks for each mutant; 0 is its short run")
	mutantTests = flag.String("mutants-tests", "", "run the tests of these packages instead of the simulator")
)

// TestMutants breaks the vault in ways that only show when calls fail or meet, and
// reports which of them the simulator notices. It builds with an overlay, so the tree
// stays as it is.
func TestMutants(t *testing.T) {
	top := must.Get(filepath.Abs("../../.."))(t)
	words := strings.Split(*mutantNames, ",")
	killed, all := 0, 0
	for _, m := range mutants {
		if !slices.ContainsFunc(words, func(word string) bool { return strings.HasPrefix(m.name, word) }) {
			continue
		}
		began := time.Now()
		out, err := m.run(t, top)
		all++
		if err == nil {
			t.Logf("%-28s lives (%s)", m.name, time.Since(began).Round(time.Second))
			if *mutantTests == "" && m.seen {
				t.Errorf("the simulator no longer notices %s", m.name)
			}
			continue
		}
		killed++
		t.Logf("%-28s KILLED (%s): %s", m.name, time.Since(began).Round(time.Second), reason(out))
	}
	t.Logf("%d mutants, %d killed", all, killed)
}

// run runs tests of a tree with the mutant.
func (m *mutant) run(t *testing.T, top string) ([]byte, error) {
	t.Helper()
	replaced := map[string]string{}
	for _, part := range m.parts(t) {
		file, changed := filepath.Join(top, part.file), filepath.Join(t.TempDir(), "mutant.go")
		text := string(must.Get(os.ReadFile(file))(t))
		if strings.Count(text, part.old) != 1 {
			t.Fatalf("%s: %d places of %q in %s, want 1", part.name, strings.Count(text, part.old), part.old, part.file)
		}
		must.Do(t, os.WriteFile(changed, []byte(strings.Replace(text, part.old, part.new, 1)), 0o600))
		replaced[file] = changed
	}
	overlay := filepath.Join(t.TempDir(), "overlay.json")
	must.Do(t, os.WriteFile(overlay, must.Get(json.Marshal(map[string]any{"Replace": replaced}))(t), 0o600))
	args := []string{"test", "-overlay", overlay, "-vet=off", "-failfast", "-timeout=10m"}
	switch {
	case *mutantTests != "":
		args = append(args, strings.Split(*mutantTests, ",")...)
	case *mutantsFor > 0:
		args = append(args, "./internal/test/sim", "-run=TestHistory", "-first", "-for="+mutantsFor.String())
	default:
		args = append(args, "./internal/test/sim", "-run=TestHistory", "-first")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	if strings.Contains(string(out), "[build failed]") {
		t.Fatalf("%s: %s", m.name, out)
	}
	return out, err
}

// reason returns the first line of output that names a failure.
func reason(out []byte) string {
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "- ") || strings.HasPrefix(line, "--- FAIL") || strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return line[:min(len(line), 160)]
		}
	}
	return "see the output"
}

// mutant is a defect that a change may bring into the tree.
type mutant struct {
	name     string // the mechanism, and what is wrong
	file     string
	old, new string
	also     string // another mutant, in another file, that is there as well
	seen     bool   // the simulator's short run notices it
}

// parts returns the mutant, and the other one in also.
func (m *mutant) parts(t *testing.T) []mutant {
	t.Helper()
	if m.also == "" {
		return []mutant{*m}
	}
	i := slices.IndexFunc(mutants, func(other mutant) bool { return other.name == m.also })
	if i < 0 {
		t.Fatalf("%s: there is no mutant %q", m.name, m.also)
	}
	return []mutant{*m, mutants[i]}
}

var mutants = []mutant{
	// Leases.
	{name: "lease: one owner for all", file: "internal/runs/worker.go",
		old: "Owner: storage.ID(uuid.New())", new: "Owner: storage.ID(uuid.UUID{1})", seen: true},
	{name: "lease: slots leak on errors", file: "internal/runs/worker.go",
		old: "	w.release(tenant, room-len(jobs))\n", new: "	if err == nil {\n		w.release(tenant, room-len(jobs))\n	}\n", seen: true},
	{name: "lease: run writes at once", file: "internal/runs/job.go",
		old: "j.At(caller).Collecting(writes))", new: "j.At(caller))", seen: true},
	{name: "lease: failed run writes", file: "internal/runs/job.go",
		old: "done, answer = nil, callbackError(err)", new: "answer = callbackError(err)"},
	{name: "lease: extended under old key", file: "internal/runs/job.go",
		old: "version != job.KeyVersion {\n		location", new: "false && version != job.KeyVersion {\n		location"},
	{name: "lease: sent result is lost", file: "internal/runs/job.go",
		old: "	if again {\n		return j.put(ctx, nil, delay)\n	}\n	return j.giveUp(ctx)", new: "	_, _ = again, delay\n	return j.giveUp(ctx)"},
	{name: "lease: expired while running", file: "internal/runs/job.go",
		old: "if ctx.Err() != nil {\n		return ctx.Err() // the node stops, or has lost the job\n	}", new: ""},

	// Claims and Once.
	{name: "claim: not taken", file: "internal/once/once.go",
		old: "ch, err := r.change(ctx, a, writes, storage.ClaimTake)\n		if err != nil {\n			return a, false, err\n		}\n", new: "ch, err := r.change(ctx, a, writes, storage.ClaimTake)\n		if err != nil {\n			return a, false, err\n		}\n		if r.Now.UnixMicro()%4 == 0 {\n			ch.Claim = nil\n		}\n", seen: true},
	{name: "claim: lease never ends", file: "internal/once/once.go",
		old: "errors.Is(err, storage.ErrNotFound) || err == nil && !claim.Live(r.Now)", new: "errors.Is(err, storage.ErrNotFound)"},
	{name: "claim: owner is shared", file: "internal/once/once.go",
		old: "owner: op.NewID()}", new: "owner: uuid.UUID{1}}"},
	{name: "claim: effects before it", file: "internal/once/once.go",
		old: "	caller := r.Collecting(writes)\n", new: "	caller := r.Caller\n	_ = writes\n"},

	// Revisions and unknown outcomes.
	{name: "unsure: not asked again", file: "internal/core/op.go",
		old: "		if !errors.Is(err, storage.ErrLate) {\n			return err\n		}\n", new: "		if !errors.Is(err, storage.ErrLate) || ch.Unsure {\n			return err\n		}\n"},
	{name: "unsure: forgotten", file: "internal/core/op.go",
		old: "		from := op.State.Ring\n		err = op.Reload(ctx)", new: "		ch.Unsure = false\n		from := op.State.Ring\n		err = op.Reload(ctx)"},
	{name: "revision: delete of any", file: "internal/tokens/rows.go",
		old: "Rev: row.Rev, Set: row.Set", new: "Rev: max(row.Rev, 1), Set: row.Set"},
	{name: "revision: stale is success", file: "internal/tokens/patch.go",
		old: "t, err := core.RetryStale(func() (Token, error) { return change.update(ctx, id) })", new: "t, err := change.update(ctx, id)\n		if errors.Is(err, storage.ErrStale) {\n			err = nil\n		}"},

	// What is withdrawn.
	{name: "cache: age from its end", file: "internal/core/cache.go",
		old: "entry[V]{value, r.Stamp.asked}", new: "entry[V]{value, time.Now()}"},
	{name: "cache: lives two seconds", file: "internal/core/cache.go",
		old: "const MaxAge = time.Second\n", new: "const MaxAge = 2 * time.Second\n", seen: true},
	{name: "cache: stale read kept", file: "internal/core/cache.go",
		old: "	if c.gen.Load() != r.Stamp.gen {\n		return\n	}\n", new: ""},

	// The horizon of a rotation. The wait and the hold on the ring guard the same rows,
	// so either one may be missing.
	{name: "rotation: no wait", file: "internal/rotation/rotation.go",
		old: "since.Add(keyring.Horizon)", new: "since.Add(0*keyring.Horizon)"},
	{name: "rotation: half a wait", file: "internal/rotation/rotation.go",
		old: "since.Add(keyring.Horizon)", new: "since.Add(keyring.Horizon/2)"},
	{name: "rotation: one more pass", file: "internal/rotation/rotation.go",
		old: "		if r.due == before {\n", new: "		if true || r.due == before {\n"},
	{name: "rotation: jobs are left", file: "internal/rotation/rotation.go",
		old: "[]storage.SealedKind{storage.SealedClaims, storage.SealedJobs}", new: "[]storage.SealedKind{storage.SealedClaims}"},
	{name: "rotation: claims are left", file: "internal/rotation/rotation.go",
		old: "[]storage.SealedKind{storage.SealedClaims, storage.SealedJobs}", new: "[]storage.SealedKind{storage.SealedJobs}"},
	{name: "rotation: writes are never late", file: "internal/core/op.go",
		old: "		ch.Before = op.State.WriteBefore()\n	}\n}", new: "	}\n}"},
	{name: "rotation: writes hold no ring", file: "internal/core/op.go",
		old: "			ch.Hold = op.State.Hold\n", new: ""},
	{name: "rotation: no wait, no hold", file: "internal/rotation/rotation.go",
		old: "since.Add(keyring.Horizon)", new: "since.Add(0*keyring.Horizon)", also: "rotation: writes hold no ring", seen: true},
	{name: "rotation: no limit, no hold", file: "internal/keyring/keyring.go",
		old: "return s.ReadAt.Add(MaxAge)", new: "return s.ReadAt.Add(100 * MaxAge)", also: "rotation: writes hold no ring"},
	{name: "rotation: unknown key is fatal", file: "internal/core/op.go",
		old: "	if errors.Is(err, seal.ErrNoKey) {\n		if err := op.Reload(ctx)", new: "	if false {\n		if err := op.Reload(ctx)"},

	// Sequencing of the log.
	{name: "sequence: unsure is written", file: "internal/core/commit.go",
		old: "	case err == nil && op.tx == nil:\n		l.Written(op.Tenant(), ch.Logs)", new: "	case op.tx == nil:\n		l.Written(op.Tenant(), ch.Logs)"},
	{name: "sequence: row before cache", file: "internal/ledger/sequence.go",
		old: "	known := l.cachedTree(tenant)\n	tree, err := l.tree(ctx, tenant)\n	if err != nil {\n		return nil, err\n	}\n", new: "	tree, err := l.tree(ctx, tenant)\n	if err != nil {\n		return nil, err\n	}\n	known := l.cachedTree(tenant)\n"},
	{name: "sequence: cached before written", file: "internal/ledger/sequence.go",
		old: "	if err := s.l.c.Store.WriteTree(ctx, s.change); err != nil {", new: "	s.l.cacheTree(s.tenant, s.frontier.Clone(), s.state.Revision)\n	if err := s.l.c.Store.WriteTree(ctx, s.change); err != nil {"},
	{name: "sequence: arrived is forgotten", file: "internal/ledger/sequence.go",
		old: "	s.l.arrived(s.tenant, s.change.Leaves...)\n", new: ""},

	{name: "sequence: deleted is tampered", file: "internal/ledger/sequence.go",
		old: "	if err := l.exists(ctx, tenant); err != nil {\n		return err\n	}\n", new: "", seen: true},
	{name: "sequence: deleted is missing", file: "internal/ledger/life.go",
		old: "				if err := l.exists(ctx, tenant); err != nil {\n					return err\n				}\n", new: ""},

	// Sinks.
	{name: "sink: cursor passes a failure", file: "internal/sinks/worker.go",
		old: "	case !isRefusal(err):\n		return err\n", new: "	case !isRefusal(err):\n		d.done += len(rows)\n		return nil\n"},
	{name: "sink: unsure cursor is kept", file: "internal/sinks/cursor.go",
		old: "	f.read = false // until the write is confirmed\n", new: ""},

	// Sweeps.
	{name: "sweep: tombstone too early", file: "internal/sweep/sweep.go",
		old: "r.CreatedAt.Add(keyring.Horizon).After(s.v.Now())", new: "r.CreatedAt.Add(0*keyring.Horizon).After(s.v.Now())"},
	{name: "sweep: row without its entry", file: "internal/sweep/expired.go",
		old: "			ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Type, r.ID))\n		},\n	}\n	// The rest", new: "			if len(ch.Logs) == 0 {\n				ch.Logs = append(ch.Logs, op.Entry(audit.Expire, r.Type, r.ID))\n			}\n		},\n	}\n	// The rest"},

	// Group commit, below the simulator's storage.
	{name: "group: refused call is replayed", file: "storage/sqlite/writer.go",
		old: "		if !refused(c.err) || w.wrote {\n", new: "		if !refused(c.err) {\n"},
	{name: "group: counts survive a rollback", file: "storage/sqlite/writer.go",
		old: "			w.counts.all = w.counts.all[:counts]\n", new: "			_ = counts\n"},
	{name: "group: holds survive a rollback", file: "storage/sqlite/writer.go",
		old: "			clear(w.known.holds)\n			w.counts", new: "			w.counts"},
	{name: "group: known sets survive", file: "storage/sqlite/writer.go",
		old: "			w.sets = w.sets[:sets]\n", new: ""},
	{name: "group: no savepoint", file: "storage/sqlite/writer.go",
		old: "	if errors.Is(w.transact(g, w.applyAll), errReplay) {\n		_ = w.transact(g, w.oneByOne)\n	}", new: "	_ = w.transact(g, w.applyAll)"},
}
