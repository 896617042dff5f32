//go:build long

package sinks_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The environment of a process that sends and is killed.
const (
	envDatabase = "SINK_TEST_DATABASE"
	envKey      = "SINK_TEST_KEY"
	envURL      = "SINK_TEST_URL"
	envAhead    = "SINK_TEST_AHEAD" // how far its clock is ahead, so that the lease of a killed process is over
)

// TestSendUntilKilled is the process that TestSinkSurvivesKills kills.
func TestSendUntilKilled(t *testing.T) {
	if os.Getenv(envDatabase) == "" {
		return
	}
	key := must.Get(vault.ParseKey(os.Getenv(envKey)))(t)
	ahead := must.Get(time.ParseDuration(os.Getenv(envAhead)))(t)
	store := must.Get(opener(os.Getenv(envDatabase))(t.Context()))(t)
	must.Get(vault.Open(t.Context(), store, key, &vault.Config{
		Now: func() time.Time { return time.Now().Add(ahead) }, SweepEvery: -1, WorkEvery: -1,
		Sinks: []vault.Sink{{Name: "siem", Sender: vault.LogHTTP(os.Getenv(envURL), &vault.LogHTTPOptions{Gzip: false}), FromStart: true}},
	}))(t)
	select {} // the vault sends in the background
}

// receiver is a destination in this process. It counts batches, and signals when
// it has read a batch and when it has responded.
type receiver struct {
	mu   sync.Mutex
	ids  []uuid.UUID
	took chan int // entries of a batch, before the response
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var ids []uuid.UUID
	lines := bufio.NewScanner(req.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ ID uuid.UUID }
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			return
		}
		ids = append(ids, e.ID)
	}
	if lines.Err() != nil {
		return // the process died while it sent
	}
	r.mu.Lock()
	r.ids = append(r.ids, ids...)
	r.mu.Unlock()
	select {
	case r.took <- len(ids):
	default:
	}
	_, _ = io.WriteString(w, "ok")
}

// Processes that send 200,000 entries are killed repeatedly in the middle of their
// work. No entry is lost, and each kill causes at most one batch to be resent.
func TestSinkSurvivesKills(t *testing.T) {
	const entries, every = 200_000, 12 // batches before a kill
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			at := database(t)
			w := newInstallation(t, opener(at))
			for range entries / 20_000 {
				w.fill(t, 20_000)
			}
			want := w.entries(t)
			r := &receiver{took: make(chan int, 1000)}
			srv := httptest.NewServer(r)
			defer srv.Close()
			began, kills := time.Now(), 0
			for ; ; kills++ {
				if w.sendAndKill(t, r, at, srv.URL, kills, every) {
					break
				}
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			doubles := countDoubles(t, want, r.ids)
			t.Logf("%d entries, %d kills, %d entries came again, %v", len(want), kills, doubles, time.Since(began).Round(time.Second))
			if doubles > kills*batchSize {
				t.Errorf("%d entries came again after %d kills", doubles, kills)
			}
		})
	}
}

// sendAndKill runs a process until it has sent some batches, and kills it. It
// reports whether all entries were sent.
func (w *installation) sendAndKill(t *testing.T, r *receiver, database, url string, kills, batches int) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSendUntilKilled$")
	ahead := time.Duration(kills) * 30 * time.Second
	cmd.Env = append(os.Environ(), envDatabase+"="+database, envKey+"="+w.key.Text(), envURL+"="+url, envAhead+"="+ahead.String())
	must.Do(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		for len(r.took) > 0 {
			<-r.took
		}
	}()
	for i := range batches {
		select {
		case <-r.took:
		case <-time.After(20 * time.Second):
			return i == 0 || w.behind(t) == 0
		}
	}
	return false
}

func (w *installation) behind(t *testing.T) int {
	t.Helper()
	status, err := w.admin.ListSinks(t.Context())
	if err != nil || len(status) != 1 {
		t.Fatal(status, err)
	}
	return status[0].Behind
}

// A dead destination does not slow down creates. Vaults with and without the sink
// take turns, so that both run under the same load.
func TestDeadSinkDoesNotSlowCreates(t *testing.T) {
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has gone
		<-r.Context().Done()
	}))
	defer hangs.Close()
	const rounds, each = 40, 100
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			sinks := map[string][]vault.Sink{
				"none":    nil,
				"hanging": {{Name: "siem", Sender: vault.LogHTTP(hangs.URL, nil), FromStart: true}},
				"closed":  {{Name: "siem", Sender: vault.LogHTTP("http://127.0.0.1:1", nil), FromStart: true}},
			}
			clients, times := map[string]*vault.Owner{}, map[string][]time.Duration{}
			for kind, s := range sinks {
				clients[kind] = openWith(t, database(t), s)
			}
			for range rounds {
				for kind, c := range clients {
					times[kind] = append(times[kind], creates(t, c, each)...)
				}
			}
			for kind, all := range times {
				slices.Sort(all)
				t.Logf("%-8s p50 %v, p99 %v of %d creates", kind, all[len(all)/2], all[len(all)*99/100], len(all))
			}
			none := times["none"]
			limit := 2*none[len(none)*99/100] + time.Millisecond
			for kind, all := range times {
				if p99 := all[len(all)*99/100]; p99 > limit {
					t.Errorf("%s: p99 is %v, and %v without a sink", kind, p99, none[len(none)*99/100])
				}
			}
		})
	}
}

func openWith(t *testing.T, database string, sinks []vault.Sink) *vault.Owner {
	t.Helper()
	store := must.Get(opener(database)(t.Context()))(t)
	v := must.Get(vault.Open(t.Context(), store, vault.NewKey(), &vault.Config{SweepEvery: -1, WorkEvery: -1, Sinks: sinks}))(t)
	t.Cleanup(func() { _ = v.Close() })
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	return v.Tenant(tenant.ID)
}

// creates returns the durations of creates by four concurrent callers.
func creates(t *testing.T, c *vault.Owner, n int) []time.Duration {
	t.Helper()
	var mu sync.Mutex
	var all []time.Duration
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range n / 4 {
				began := time.Now()
				_, err := c.CreateToken(t.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "x"})
				took := time.Since(began)
				mu.Lock()
				if all = append(all, took); err != nil {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return all
}
