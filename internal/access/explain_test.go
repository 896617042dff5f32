package access

import (
	"math/rand/v2"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestExplainAgreesWithDecide combines the looks as documented, and compares
// the result with the decision.
func TestExplainAgreesWithDecide(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	for range long.Rounds(20, 300) {
		_, _, g := randomGrant(t, r)
		_, _, by := randomGrant(t, r)
		for _, grant := range []*Grant{g, g.Under(by), g.DelegatedBy(by), g.Under(by).DelegatedBy(by)} {
			for range 100 {
				permission, id, set := pick(r, onToken), pick(r, worldIDs), pick(r, worldSets)
				to := pick(r, targets)
				want := grant.DecideTo(permission, id, set, to).Transform
				if got := conclude(grant.Explain(permission, id, set), to); got != want {
					t.Fatalf("%s on %s in %v: explained as %v, decided as %v", permission, id, set, got, want)
				}
			}
		}
	}
}

// conclude returns the transform that results from looks, for data that goes to
// a target.
func conclude(looks []Look, to Target) Transform {
	byLimit, best := map[int]Transform{}, map[int]Transform{}
	for _, l := range looks {
		if !l.To.Match(to) {
			return None
		}
		t, known := byLimit[l.Limit]
		if !known {
			t = Reveal
		}
		byLimit[l.Limit], best[l.Limit] = min(t, l.Transform), l.Best
	}
	out := Reveal
	for limit, t := range byLimit {
		if t != None {
			t = max(t, best[limit])
		}
		out = min(out, t)
	}
	return out
}

func TestExplainSteps(t *testing.T) {
	t.Parallel()
	g := mustNew(t, []Rule{
		on(4, "/pci/", Reveal, TokenRead),
		on(1, "/pci/", Reveal, TokenDelete),
		when(3, Mask, Condition{ID, StartsWith, "test-"}),
		on(2, "/bank/", Redact, TokenRead),
		on(5, "/", Mask, TokenRead),
	}, TokenRead, TokenUse)
	want := []Look{{Container: "/pci/high/", Decision: Decision{Transform: Reveal}, Steps: []Step{
		{1, OtherPermission}, {2, OtherContainer}, {3, OtherID}, {4, Decides}, {5, NotAsked}, {0, NotAsked},
	}}}
	must.Same(t, "looks", want, g.Explain(TokenRead, "x", []string{"/pci/high/"}))
	got := g.Explain(TokenUse, "x", []string{"/pci/high/"})[0]
	if last := got.Steps[len(got.Steps)-1]; last != (Step{0, Decides}) || got.Transform != Reveal {
		t.Errorf("a plain permission: %v, %v", last, got.Transform)
	}
}
