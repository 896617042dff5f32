package vaultclient

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/script"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// TestWalkThroughAListThatChanges walks through lists to which tokens are added,
// and from which others are taken, between any two pages. What is there all the
// time is seen once, in order; nothing is seen twice, and nothing that is new.
func TestWalkThroughAListThatChanges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		now := vaulttest.Start
		var list []vault.Token // newest first
		add := func(name string, i int) {
			if random.IntN(3) > 0 {
				now = now.Add(time.Microsecond)
			}
			at := now
			list = append([]vault.Token{{ID: fmt.Sprint(name, i), CreatedAt: at}}, list...)
		}
		for i := range random.IntN(500) {
			add("old", i)
		}
		now = now.Add(time.Microsecond)
		stays := map[string]bool{}
		var want []string
		for _, tok := range list {
			if stays[tok.ID] = random.IntN(4) > 0; stays[tok.ID] {
				want = append(want, tok.ID)
			}
		}
		w := &walk{size: 1 + random.IntN(pageSize)}
		seen := map[string]bool{}
		var got []string
		for step := 0; ; step++ {
			if step > 10_000 {
				t.Fatalf("seed %d: the walk does not end", seed)
			}
			fresh, more := w.take(pageOf(list, w.window()))
			for _, tok := range fresh {
				if seen[tok.ID] || tok.ID[:3] == "new" {
					t.Fatalf("seed %d: %s is seen again, or is new", seed, tok.ID)
				}
				if seen[tok.ID] = true; stays[tok.ID] {
					got = append(got, tok.ID)
				}
			}
			if !more {
				break
			}
			list = slices.DeleteFunc(list, func(tok vault.Token) bool { return !stays[tok.ID] && random.IntN(3) == 0 })
			if len(fresh) > 0 { // else a list that grows faster than it is read has no end
				for i := range random.IntN(max(1, len(fresh))) {
					add(fmt.Sprint("new", step, "-"), i)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d tokens were seen, %d were there all the time", seed, len(got), len(want))
		}
	}
}

// pageOf returns a page of a list as a vault does.
func pageOf(list []vault.Token, p vault.PageParams) []vault.Token {
	from := min(len(list), (p.Page-1)*p.Size)
	return list[from:min(len(list), from+p.Size)]
}

// TestScriptErrorsAreRead reads what the vault says of every error of code.
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
			got := scriptError(&errorBody{Detail: want.Error()})
			if got == nil || got.Kind != kind || !slices.Equal(got.Frames, want.Frames) {
				t.Errorf("%s is read as %+v", want, got)
			}
		}
	}
	for _, other := range []string{"", "There is no such token.", "the code failed", "the code failed (thrown) at line x", "x the code failed (thrown)"} {
		if got := scriptError(&errorBody{Detail: other}); got != nil {
			t.Errorf("%q is read as %+v", other, got)
		}
	}
}

// TestDefaults calls a vault on this machine with no options at all.
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
	c, err := New(srv.URL, v.PrivateKey, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: 1}); err != nil {
		t.Error(err)
	}
	if agent := <-agents; agent != "vaultclient" {
		t.Errorf("User-Agent %q", agent)
	}
}
