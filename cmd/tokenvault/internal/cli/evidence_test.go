package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/evidence"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestVerdictsHaveExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{{errTampered, exitTampered}, {(&call{}).verdict(nil, evidence.ErrCannotTell), exitUnsure}, {errors.New("other"), exitFailed}} {
		must.Same(t, fmt.Sprintf("%v: exit", tc.err), tc.want, exitCode(tc.err))
	}
}

// auditedReports returns reports with every verdict.
func auditedReports() (names []string, reports []*evidence.Report) {
	tenant, id := uuid.MustParse("0196a1b2-0000-7000-8000-000000000001"), uuid.MustParse("0196a1b2-c3d4-7000-8000-00000000000a")
	at := time.Date(2026, 5, 6, 10, 3, 4, 0, time.UTC)
	user := &evidence.Entry{ID: id, CreatedAt: at, ActorType: "user", ActorName: "jane", EntityType: "application", EntityID: "0196a1b2-0000-7000-8000-00000000000b", Operation: "update"}
	app := &evidence.Entry{ID: id, CreatedAt: at, ActorID: tenant, ActorType: "application", EntityType: "token", EntityID: "card-1", Operation: "delete"}
	add := func(name string, findings ...evidence.Finding) {
		r := &evidence.Report{
			Origin: "log.example", Key: "log.example+1a2b3c4d", Size: 900, Entries: 9120, Tenants: 3, Notes: 212,
			From: time.Date(2026, 5, 2, 0, 0, 0, 0, time.UTC), To: time.Date(2026, 11, 17, 0, 0, 0, 0, time.UTC),
		}
		for _, f := range findings {
			r.Add(f)
		}
		names, reports = append(names, name), append(reports, r)
	}
	entry := func(v evidence.Verdict, index int64, e *evidence.Entry) evidence.Finding {
		return evidence.Finding{Tenant: tenant, Index: index, EntryID: id, Verdict: v, Entry: e}
	}
	add("verified")
	add("verified, with expired, erased, lost and new entries", entry(evidence.Expired, 1, nil), entry(evidence.Expired, 2, nil),
		entry(evidence.Erased, 3, nil), entry(evidence.LostRead, -1, nil), entry(evidence.Unsequenced, -1, user))
	reports[1].Anchors, reports[1].From = 2, time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
	add("altered", entry(evidence.Altered, 12, user))
	add("missing", entry(evidence.Missing, 12, nil), evidence.Finding{Tenant: tenant, Index: 13, Verdict: evidence.Missing})
	add("forged", entry(evidence.Forged, -1, app))
	add("reordered", entry(evidence.Reordered, 12, app))
	for _, v := range []evidence.Verdict{evidence.Altered, evidence.Truncated, evidence.Forked, evidence.BadSignature} {
		add(string(v)+" tree", evidence.Finding{Index: -1, Verdict: v}, evidence.Finding{Tenant: tenant, Index: -1, Verdict: v})
	}
	old := entry(evidence.Altered, 12, user)
	old.Row = "application 0196a1b2-0000-7000-8000-00000000000b"
	gone := old
	gone.Verdict = evidence.Missing
	add("rows", old, gone)
	add("nothing")
	last := reports[len(reports)-1]
	*last = evidence.Report{Key: last.Key, Notes: 1}
	return names, reports
}

// TestTextsOfVerify compares what log verify prints for each verdict with a golden
// file.
func TestTextsOfVerify(t *testing.T) {
	t.Parallel()
	var all bytes.Buffer
	names, reports := auditedReports()
	for i, r := range reports {
		var out, problems bytes.Buffer
		c := &call{program: newProgram(os.Getenv, Streams{Out: &out, Err: &problems}, systemUser)}
		err := c.verdict(r, nil)
		status := 0
		if err != nil {
			status = exitCode(err)
			fmt.Fprintln(&problems, err)
		}
		fmt.Fprintf(&all, "# %s: exit %d\n%s%s", names[i], status, out.String(), problems.String())
		fmt.Fprintln(&all)
	}
	path := filepath.Join("testdata", "verify.golden")
	if flag.Lookup("update").Value.String() == "true" {
		must.Do(t, os.WriteFile(path, all.Bytes(), 0o600))
	}
	want := must.Get(os.ReadFile(path))(t)
	must.Same(t, "texts", string(want), all.String())
}
