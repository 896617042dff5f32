package httpserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pace"
)

// Drain stops a server without losing requests, behind a balancer that polls
// /readyz:
//
//	drain := &httpserver.Drain{Delay: 5 * time.Second, Timeout: 30 * time.Second}
//	srv := &http.Server{Handler: httpserver.Handler(v, &httpserver.Options{Drain: drain})}
//	go srv.Serve(listener)
//	<-ctx.Done() // at SIGTERM
//	err := drain.Shutdown(context.Background(), v, srv)
//	err = errors.Join(err, v.Close())
type Drain struct {
	// Delay is how long /readyz is a 503 while everything is still served. It
	// must be longer than the balancer takes to notice.
	Delay time.Duration
	// Timeout is how long requests and jobs may take to end after Delay. Zero
	// means that they are not waited for.
	Timeout time.Duration

	began atomic.Bool
}

// Shutdown makes /readyz a 503 for Delay. Then it closes the listeners of the
// servers, and lets the vault take no more jobs. It returns when the requests in
// progress and the running jobs have ended, or with an error after Timeout, when it
// has closed the remaining connections. If ctx ends, it waits no longer.
//
// From the start, responses ask clients to close their connections. Shutdown does
// not close the vault.
func (d *Drain) Shutdown(ctx context.Context, v *vault.Vault, servers ...*http.Server) error {
	d.began.Store(true)
	_ = pace.Sleep(ctx, d.Delay) // if ctx has ended, the servers close at once
	ctx, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	failed := make([]error, len(servers)+1)
	var wg sync.WaitGroup
	for i, srv := range servers {
		wg.Go(func() {
			if err := srv.Shutdown(ctx); err != nil {
				_ = srv.Close() // the requests are reported
				failed[i] = fmt.Errorf("httpserver: requests were still in progress after %s: %w", d.Timeout, err)
			}
		})
	}
	wg.Go(func() {
		if err := v.StopJobs(ctx); err != nil && d.Timeout > 0 {
			failed[len(servers)] = fmt.Errorf("httpserver: jobs may still have been running after %s: %w", d.Timeout, err)
		}
	})
	wg.Wait()
	return errors.Join(failed...)
}

// draining reports whether Shutdown was called. d may be nil.
func (d *Drain) draining() bool { return d != nil && d.began.Load() }
