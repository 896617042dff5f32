package storagetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/seed-72ea4aab/vault/storage"
)

func claimRules() []rule {
	return []rule{
		{"Claim returns ErrNotFound for a key without a claim", claimNotFound},
		{"ClaimTake inserts the claim, with or without its answer", claimTake},
		{"ClaimTake is refused while a live claim has the key", claimLive},
		{"ClaimTake replaces a claim that is no longer live", claimReplaced},
		{"Now is the moment by which claims are judged live", claimNow},
		{"ClaimFinish stores the answer and its expiry", claimFinish},
		{"ClaimFinish is for a claim in progress that is still its owner's", claimFinishFenced},
		{"ClaimDrop deletes a claim in progress that is still its owner's", claimDrop},
		{"of many takers one wins", claimContention},
		{"of many takers of a dead claim one wins", deadClaimContention},
	}
}

func claimNotFound(w *world) {
	if _, err := w.store.Claim(w.Context(), w.id(), w.key()); !errors.Is(err, storage.ErrNotFound) {
		w.Errorf("got %v, want ErrNotFound", err)
	}
}

func claimTake(w *world) {
	tenant := w.id()
	for _, c := range []storage.Claim{w.claim(), w.answered()} {
		w.write(take(tenant, c))
		got := w.claimed(tenant, c.Key)
		w.same("claim", got, &c)
		if (got.Answer == nil) != (c.Answer == nil) {
			w.Errorf("answer is nil: %t, want %t", got.Answer == nil, c.Answer == nil)
		}
	}
}

func claimLive(w *world) {
	tenant := w.id()
	for _, c := range []storage.Claim{w.claim(), w.answered()} {
		w.write(take(tenant, c))
		other := w.answered()
		other.Key = c.Key
		w.refused(take(tenant, other), storage.ClaimTaken, 0)
		w.same("claim", w.claimed(tenant, c.Key), &c)
	}
}

func claimReplaced(w *world) {
	tenant := w.id()
	var dead []storage.Claim
	for _, c := range []storage.Claim{w.claim(), w.claim()} {
		c.LeaseUntil = earlier
		dead = append(dead, c)
	}
	dead[1].LeaseUntil = now
	for _, c := range []storage.Claim{w.answered(), w.answered()} {
		c.ExpiresAt, c.LeaseUntil = earlier, later
		dead = append(dead, c)
	}
	dead[3].ExpiresAt = now
	for _, old := range dead {
		w.write(take(tenant, old))
		next := w.claim()
		next.Key = old.Key
		w.write(take(tenant, next))
		got := w.claimed(tenant, old.Key)
		w.same("claim", got, &next)
		if got.Answer != nil {
			w.Error("the answer of the replaced claim is still there")
		}
	}
}

func claimNow(w *world) {
	tenant, c := w.id(), w.claim()
	w.write(take(tenant, c))
	other := w.claim()
	other.Key, other.LeaseUntil = c.Key, later
	change := take(tenant, other)
	change.Now = c.LeaseUntil.Add(-1000)
	w.refused(change, storage.ClaimTaken, 0)
	change.Now = c.LeaseUntil
	w.write(change)
	w.same("claim", w.claimed(tenant, c.Key), &other)
}

// finishOf returns the change that finishes a claim with an Answer.
func finishOf(tenant storage.ID, c storage.Claim) *storage.Change {
	c.Answer, c.KeyVersion, c.ExpiresAt = []byte("the answer"), 6, later.AddDate(0, 0, 1)
	return claimChange(tenant, storage.ClaimFinish, c)
}

func claimFinish(w *world) {
	tenant, c, late := w.id(), w.claim(), w.claim()
	late.LeaseUntil = earlier // and no other claim was taken
	for _, c := range []storage.Claim{c, late} {
		w.write(take(tenant, c))
		finish := finishOf(tenant, c)
		w.write(finish)
		// The lease does not matter once there is an Answer.
		diff := cmp.Diff(&finish.Claim.Claim, w.claimed(tenant, c.Key), cmpopts.IgnoreFields(storage.Claim{}, "LeaseUntil"))
		if diff != "" {
			w.Errorf("claim (-want +got):\n%s", diff)
		}
		again := w.claim()
		again.Key = c.Key
		w.refused(take(tenant, again), storage.ClaimTaken, 0)
	}
}

func claimFinishFenced(w *world) {
	tenant := w.id()
	w.refused(finishOf(tenant, w.claim()), storage.ClaimLost, 0)

	done := w.answered()
	w.write(take(tenant, done))
	w.refused(finishOf(tenant, done), storage.ClaimLost, 0)
	w.same("answered claim", w.claimed(tenant, done.Key), &done)

	lost, next := w.claim(), w.claim()
	lost.LeaseUntil, next.Key = earlier, lost.Key
	w.write(take(tenant, lost))
	w.write(take(tenant, next))
	w.refused(finishOf(tenant, lost), storage.ClaimLost, 0)
	w.same("claim of the next owner", w.claimed(tenant, next.Key), &next)
	w.write(finishOf(tenant, next))
	w.refused(finishOf(tenant, next), storage.ClaimLost, 0)
}

func claimDrop(w *world) {
	tenant, mine, done := w.id(), w.claim(), w.answered()
	w.write(take(tenant, mine))
	w.write(take(tenant, done))
	other := mine
	other.Owner = w.id()
	w.refused(claimChange(tenant, storage.ClaimDrop, other), storage.ClaimLost, 0)
	w.refused(claimChange(tenant, storage.ClaimDrop, done), storage.ClaimLost, 0)
	w.same("claim", w.claimed(tenant, mine.Key), &mine)
	w.same("answered claim", w.claimed(tenant, done.Key), &done)

	w.write(claimChange(tenant, storage.ClaimDrop, mine))
	w.same("dropped claim", w.claimed(tenant, mine.Key), (*storage.Claim)(nil))
	w.refused(claimChange(tenant, storage.ClaimDrop, mine), storage.ClaimLost, 0)
	w.write(take(tenant, other))
}

// race lets n writers, each with a different token, take one claim. It checks
// that one of them succeeds and that only its token exists.
func (w *world) race(tenant storage.ID, key storage.Key, n int) {
	w.Helper()
	nodes, tokens := w.nodes(), w.tokenSeries("t", n)
	claims := make([]storage.Claim, n)
	for i := range claims {
		claims[i] = w.claim()
		claims[i].Key = key
	}
	errs := try(n, func(i int) error {
		c := take(tenant, claims[i])
		c.InsertTokens = tokens[i : i+1]
		return nodes[i%len(nodes)].Write(w.Context(), c)
	})
	winner := w.oneWinner(errs, storage.ClaimTaken)
	w.same("claim", w.claimed(tenant, key), &claims[winner])
	w.hasTokens(tenant, tokens[winner])
}

// oneWinner returns the writer that had no error. All others must have had a
// conflict of this kind.
func (w *world) oneWinner(errs []error, kind storage.ConflictKind) int {
	w.Helper()
	winner := -1
	for i, err := range errs {
		if err != nil {
			w.isConflict(err, kind, 0)
			continue
		}
		if winner >= 0 {
			w.Fatalf("writers %d and %d both won", winner, i)
		}
		winner = i
	}
	if winner < 0 {
		w.Fatal("no writer won")
	}
	return winner
}

func claimContention(w *world) { w.race(w.id(), w.key(), 24) }

func deadClaimContention(w *world) {
	tenant, dead := w.id(), w.claim()
	dead.LeaseUntil = earlier
	w.write(take(tenant, dead))
	w.race(tenant, dead.Key, 24)
}
