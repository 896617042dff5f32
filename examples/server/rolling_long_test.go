//go:build long && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/internal/test/pgtest"
)

// balancer sends requests to the servers whose /readyz was a 200 at the last poll,
// in turn. It polls each second and never sends a request again.
type balancer struct {
	client *http.Client
	nodes  []string
	ready  []atomic.Bool
	next   atomic.Int64
}

func (b *balancer) poll(ctx context.Context) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		for i, node := range b.nodes {
			b.ready[i].Store(b.isReady(ctx, node))
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (b *balancer) isReady(ctx context.Context, node string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, node+"/readyz", http.NoBody)
	if err != nil {
		return false
	}
	res, err := b.client.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode == http.StatusOK
}

// send sends a request to the next server, and fails without a 201.
func (b *balancer) send(ctx context.Context, key string) error {
	first := int(b.next.Add(1))
	for k := range b.nodes {
		i := (first + k) % len(b.nodes)
		if !b.ready[i].Load() {
			continue
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.nodes[i]+"/tokens", strings.NewReader(`{"type":"token","data":"x"}`))
		if err != nil {
			return err
		}
		req.Header.Set("SVC-API-KEY", key)
		res, err := b.client.Do(req)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusCreated {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	}
	return errors.New("no server is ready")
}

// A rolling restart behind a balancer loses no request.
func TestRollingRestartLosesNoRequest(t *testing.T) {
	for name, db := range map[string]string{"SQLite": "vault.db", "PostgreSQL": pgtest.URL(t)} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			writeCertificate(t, folder)
			flags := []string{"-db", db, "-tls-cert", "cert.pem", "-tls-key", "key.pem", "-drain-delay", "5s", "-request-log=false"}
			run := func(addr string) *process { return start(t, folder, append(flags, "-addr", addr)...) }
			nodes := []*process{run(freeAddress(t)), nil}
			key := nodes[0].credentials().PublicKey
			nodes[1] = run(freeAddress(t))
			transport := trusting(t, filepath.Join(folder, "cert.pem"))
			transport.DisableKeepAlives, transport.MaxIdleConnsPerHost = false, 16
			b := &balancer{client: &http.Client{Transport: transport, Timeout: 20 * time.Second}, ready: make([]atomic.Bool, len(nodes))}
			for _, node := range nodes {
				b.nodes = append(b.nodes, "https://"+node.address())
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var polling, load sync.WaitGroup
			polling.Go(func() { b.poll(ctx) })
			b.awaitReady(t, 0, 1)
			var sent, failed atomic.Int64
			loading := make(chan struct{})
			for range 8 {
				load.Go(func() {
					for {
						select {
						case <-loading:
							return
						default:
						}
						if err := b.send(ctx, key); err != nil {
							failed.Add(1)
							t.Log(err)
						}
						sent.Add(1)
					}
				})
			}
			for i := range 4 {
				at := i % len(nodes)
				addr := nodes[at].address()
				must.Do(t, nodes[at].Process.Signal(syscall.SIGTERM))
				must.Match(t, "the server ended with", <-nodes[at].ended, nil)
				b.ready[at].Store(false)
				nodes[at] = run(addr)
				b.awaitReady(t, at)
			}
			close(loading)
			load.Wait()
			stop()
			polling.Wait()
			t.Logf("%s: of %d requests %d failed", name, sent.Load(), failed.Load())
			if failed.Load() > 0 || sent.Load() < 100 {
				t.Errorf("of %d requests %d failed", sent.Load(), failed.Load())
			}
		})
	}
}

// awaitReady waits until servers are ready.
func (b *balancer) awaitReady(t *testing.T, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		for !b.ready[i].Load() {
			select {
			case <-t.Context().Done():
				t.Fatal("the server is not ready")
			case <-time.After(50 * time.Millisecond):
			}
		}
	}
}

// address returns the address that a server listens on.
func (p *process) address() string {
	for i, arg := range p.Args {
		if arg == "-addr" && p.Args[i+1] != "127.0.0.1:0" {
			return p.Args[i+1]
		}
	}
	return ""
}

// freeAddress returns an address on which nothing listens.
func freeAddress(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
