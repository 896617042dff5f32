package storage_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// The calls of a request share one wait, which starts with the first call.
func TestCallsOfARequestShareOneWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const most = 20 * time.Second
		ctx := storage.OneWait(t.Context())
		inner, cancel := context.WithCancel(storage.OneWait(ctx))
		defer cancel()
		time.Sleep(time.Minute) // before the first call
		first := time.Now()
		left := func(ctx context.Context) time.Duration { return storage.WaitUntil(ctx, most).Sub(first) }
		must.Same(t, "the first call may wait for", most, left(ctx))
		time.Sleep(5 * time.Second)
		must.Same(t, "the second call may wait until", most, left(inner))
		must.Same(t, "a call outside a request may wait until", most+5*time.Second, left(t.Context()))
		time.Sleep(time.Minute)
		must.Same(t, "how long a call late in its request may wait", 65*time.Second+most/10, left(inner))
		if until := storage.WaitUntil(storage.NoWait(ctx), most); !until.Before(time.Now()) {
			t.Errorf("a call with NoWait may wait until %s", until)
		}
	})
}
