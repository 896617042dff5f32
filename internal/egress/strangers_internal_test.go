package egress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A slow anonymous call loses its place to another caller of its proxy, and only
// after a while.
func TestSlowStrangersGiveWay(t *testing.T) {
	t.Parallel()
	arrived, hold := make(chan struct{}), make(chan struct{})
	url, policy := destination(t, nil, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			arrived <- struct{}{}
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		ok(w, r)
	})
	policy.MaxConnsPerTenant = 4 // two for each proxy
	c := newClient(t, policy)
	do := func(proxy, path string) error {
		res, err := c.DoAs(request(t, t.Context(), "GET", url+path, nil), Caller{Tenant: "a", Stranger: proxy})
		if err == nil {
			_, _ = io.Copy(io.Discard, res.Body)
			err = res.Body.Close()
		}
		return err
	}
	slow := make(chan error, 4)
	for range 2 {
		go func() { slow <- do("one", "/wait") }()
		<-arrived
	}
	must.Match(t, "while the calls are new", do("one", ""), ErrBusy)
	must.Match(t, "another proxy", do("two", ""), nil)
	c.pools.strangers.crowded = 0 // as if the calls were old
	for range 5 {
		must.Match(t, "while the calls are old", do("one", ""), nil)
	}
	if err := <-slow; !errors.Is(err, ErrTooLong) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call that gave way: %v", err)
	}
	close(hold)
	must.Match(t, "the other call", <-slow, nil)
	wantNoneInProgress(t, c)
	must.Same(t, "calls", 0, len(c.pools.strangers.calls))
}

// An anonymous call ends after a minute, while its body is read, too.
func TestStrangersHaveALongestDuration(t *testing.T) {
	t.Parallel()
	ctx, call := begin(t.Context(), "a", "one")
	call.timer.Reset(0)
	<-ctx.Done()
	must.Match(t, "got", explain(ctx, io.ErrUnexpectedEOF), ErrTooLong)
	call.stop()
	if _, call = begin(t.Context(), "a", "one"); !call.timer.Stop() || maxAnonymous > time.Minute {
		t.Error("the call has no time limit")
	}
	call.stop()
}
