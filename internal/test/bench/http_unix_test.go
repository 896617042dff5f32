//go:build unix && !race

package bench

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	httpRounds = 5
	httpTime   = 2 * time.Second // of a round
)

// BenchmarkHTTPRead measures the CPU time of a read over HTTP, in this process and in
// PostgreSQL. Another process sends the requests. A bare handler sends the same bytes
// from memory, and shows what net/http takes.
func BenchmarkHTTPRead(b *testing.B) {
	s := newServed(b)
	v := newUser(b, onPostgres.openStore(b, s.dsn)).vault
	key := keyOfNewTenant(b, v)
	c := must.Get(v.Authenticate(b.Context(), key))(b)
	tok := must.Get(c.CreateToken(b.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: "secret"}))(b)
	whole := httpserver.Handler(v, nil)
	for _, callers := range []int{1, 8, 32} {
		b.Run(strconv.Itoa(callers), func(b *testing.B) {
			f := flood{Callers: callers, Method: "GET", Path: "/tokens/" + tok.ID, Key: key, Silent: true}
			ours, database := s.cpuOf(b, f, whole)
			bare, _ := s.cpuOf(b, f, repeated(b, whole, sent{f.Method, f.Path, key, "", http.StatusOK}))
			report(b, figure{what: "CPU time of a read over HTTP, database included", metric: "us", backend: onPostgres.name, callers: strconv.Itoa(callers),
				value: ours + database, unit: "µs", goal: 75, atMost: true, rates: fmt.Sprintf("%.0f here, %.0f in PostgreSQL; a bare handler %.0f", ours, database, bare)})
		})
	}
}

// cpuOf sends a flood to a handler. It returns the median CPU time per request of this
// process and of PostgreSQL, in microseconds.
func (s *served) cpuOf(b *testing.B, f flood, h http.Handler) (here, inDatabase float64) {
	b.Helper()
	var n atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		n.Add(1)
	}))
	defer front.Close()
	f.URL = front.URL
	job := must.Get(json.Marshal(f))(b)
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), floodVariable+"="+string(job))
	must.Do(b, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	var ours, database []float64
	for range httpRounds + 1 {
		cpu, there, before := cpuTime(b), s.nanoseconds(b), n.Load()
		time.Sleep(httpTime)
		cpu, count := cpuTime(b)-cpu, float64(n.Load()-before)
		ours, database = append(ours, float64(cpu.Microseconds())/count), append(database, float64(s.nanoseconds(b)-there)/1e3/count)
	}
	return median(ours[1:]), median(database[1:]) // the first round warms up
}
