package vaultclient

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestWalkOverChangingList iterates over lists while entries are added
// and removed between pages. Entries that exist all the time are seen once,
// in order. No entry is seen twice, and no new entry is seen. The test
// includes lists whose end can move, such as the log.
func TestWalkOverChangingList(t *testing.T) {
	t.Parallel()
	for seed := range uint64(long.Rounds(40, 400)) {
		random := rand.New(rand.NewPCG(seed, 1))
		l := &changingList{random: random, now: vaulttest.Start}
		for range random.IntN(500) {
			l.add("old")
		}
		stays := map[uuid.UUID]bool{}
		var want []uuid.UUID
		for _, e := range l.entries {
			if stays[e.ID] = random.IntN(4) > 0; stays[e.ID] {
				want = append(want, e.ID)
			}
		}
		var end time.Time
		seen := map[uuid.UUID]bool{}
		steps, size := 0, 1+random.IntN(pageSize)
		read := func(p vault.PageParams) (*vault.Page[vault.LogEntry], error) {
			if steps++; steps > 10_000 {
				return nil, errors.New("the walk does not end")
			}
			if p.Size > size && len(seen) == 0 {
				return nil, vault.ErrTooLarge
			}
			page := &vault.Page[vault.LogEntry]{Data: l.page(p, end)}
			l.entries = slices.DeleteFunc(l.entries, func(e vault.LogEntry) bool { return !stays[e.ID] && random.IntN(3) == 0 })
			for range random.IntN(1 + len(page.Data)/2) {
				l.add("new")
			}
			return page, nil
		}
		var move func([]vault.LogEntry) (int, bool)
		if seed%2 == 0 {
			move = func(page []vault.LogEntry) (int, bool) { return moveEnd(&end, page) }
		}
		var got []uuid.UUID
		for e, err := range pageWalk(func(e *vault.LogEntry) uuid.UUID { return e.ID }, read, move) {
			if err != nil || seen[e.ID] || e.EntityID == "new" && len(got) > 0 {
				t.Fatalf("seed %d: %v, or an entry is seen again, or is new", seed, err)
			}
			if seen[e.ID] = true; stays[e.ID] {
				got = append(got, e.ID)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d entries were seen, %d existed all the time", seed, len(got), len(want))
		}
	}
}

// changingList is a list of log entries, newest first. Some entries have the
// same time.
type changingList struct {
	random  *rand.Rand
	now     time.Time
	count   uint32
	entries []vault.LogEntry
}

func (l *changingList) add(name string) {
	if l.random.IntN(3) == 0 {
		l.now = l.now.Add(time.Microsecond)
	}
	l.count++
	var id uuid.UUID
	binary.BigEndian.PutUint32(id[:], l.count)
	l.entries = append([]vault.LogEntry{{ID: id, EntityID: name, CreatedAt: l.now}}, l.entries...)
}

// page returns a page as a vault would.
func (l *changingList) page(p vault.PageParams, end time.Time) []vault.LogEntry {
	list := slices.Clone(l.entries)
	if !end.IsZero() {
		list = slices.DeleteFunc(list, func(e vault.LogEntry) bool { return !e.CreatedAt.Before(end) })
	}
	from := min(len(list), (p.Page-1)*p.Size)
	return list[from:min(len(list), from+p.Size)]
}

// TestScriptErrorsAreRead parses the vault's description of each error of
// code.
func TestScriptErrorsAreRead(t *testing.T) {
	t.Parallel()
	for _, kind := range []script.ErrorKind{
		script.Thrown, script.Invalid, script.Timeout, script.Memory, script.Stack,
		script.Crash, script.Output, script.Deadlock, script.Depth,
	} {
		for frames := range 3 {
			want := &script.Error{Kind: kind}
			for i := range frames {
				want.Frames = append(want.Frames, script.Frame{Line: i + 1})
			}
			got := scriptError(&errorBody{Detail: fault.Detail(want)})
			if got == nil || got.Kind != kind || !slices.Equal(got.Frames, want.Frames) {
				t.Errorf("%s is read as %+v", want, got)
			}
		}
	}
	for _, other := range []string{"", "Token not found.", "The code failed.", "The code failed (thrown) at line x.", "x The code failed (thrown)."} {
		if got := scriptError(&errorBody{Detail: other}); got != nil {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
}

// TestDefaults calls a vault on this machine without options.
func TestDefaults(t *testing.T) {
	t.Parallel()
	t.Cleanup(sharedTransport().(*http.Transport).CloseIdleConnections)
	v := vaulttest.New(t)
	agents := make(chan string, 1)
	handler := httpserver.Handler(v.Vault, nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		agents <- r.UserAgent()
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	c := must.Get(New(srv.URL, v.PrivateKey, nil))(t)
	must.Get(c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: 1}))(t)
	must.Same(t, "User-Agent", "vaultclient", <-agents)
}
