//go:build unix && !race

package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

const (
	// oldVariable is an environment variable with a commit of this repository.
	oldVariable = "VAULT_BENCH_OLD"

	versionRounds = 9
	versionTime   = 1500 * time.Millisecond // of a round
	versionTokens = 1000                    // that are read
)

// BenchmarkVersions compares servers of this tree with servers of an older commit,
// which VAULT_BENCH_OLD names: rates over HTTP, and the CPU time of the server and of
// its connections to PostgreSQL. Each version has a server with evidence and one
// without. The servers take turns in the rounds of one run. The rounds of creates
// leave rows for the next ones, the same number for each server as far as they are
// equally fast.
func BenchmarkVersions(b *testing.B) {
	commit := os.Getenv(oldVariable)
	if commit == "" {
		b.Skipf("set %s to the commit to compare with", oldVariable)
	}
	programs := map[string]string{"old": buildOld(b, commit), "new": build(b, "../../..")}
	each(b, func(b *testing.B, on *backend) {
		var servers []*versionServer
		for _, evidence := range []bool{false, true} {
			for _, version := range []string{"old", "new"} {
				servers = append(servers, startVersion(b, on, version, programs[version], evidence))
			}
		}
		for _, s := range servers {
			call := s.creates(b, warmCallers)
			warmUp(b, &contender{name: s.name, call: call})
			s.readable(b)
		}
		for _, callers := range callerCounts {
			b.Run(fmt.Sprintf("create/%d", callers), func(b *testing.B) {
				compareVersions(b, on, servers, callers, (*versionServer).creates)
			})
			b.Run(fmt.Sprintf("read/%d", callers), func(b *testing.B) {
				compareVersions(b, on, servers, callers, (*versionServer).reads)
			})
		}
	})
}

// compareVersions runs the rounds of one kind of call, and logs a line for each server.
func compareVersions(b *testing.B, on *backend, servers []*versionServer, callers int, calls func(*versionServer, *testing.B, int) func() error) {
	b.Helper()
	for _, s := range servers {
		s.measured = measured{contender: contender{name: s.name, call: calls(s, b, callers)}}
	}
	for round := range versionRounds + 1 {
		order := slices.Clone(servers)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			s.round(b, callers, round > 0) // the first round warms up
		}
	}
	for _, s := range servers {
		b.Logf("%s: %s; server %s µs, database %s µs", s.name, spread(s.rates, "%.0f/s"), spread(s.here, "%.1f"), spread(s.there, "%.1f"))
	}
	ratio := func(s, to *versionServer) figure {
		ratios := make([]float64, len(s.rates))
		for i := range ratios {
			ratios[i] = s.rates[i] / to.rates[i]
		}
		return figure{what: b.Name() + ": rate of " + s.name + " / " + to.name, metric: strings.ReplaceAll(s.name+"/"+to.name, " ", "-"),
			backend: on.name, callers: strconv.Itoa(callers), value: median(ratios), unit: "x", rates: spread(ratios, "%.2f")}
	}
	oldOff, newOff, oldOn, newOn := servers[0], servers[1], servers[2], servers[3]
	for _, pair := range [][2]*versionServer{{newOff, oldOff}, {newOn, oldOn}, {oldOn, oldOff}, {newOn, newOff}} {
		report(b, ratio(pair[0], pair[1]))
	}
}

// spread formats the median of values, with their quartiles.
func spread(values []float64, format string) string {
	sorted := slices.Sorted(slices.Values(values))
	return fmt.Sprintf(format+" ("+format+" to "+format+")", median(values), sorted[len(sorted)/4], sorted[len(sorted)*3/4])
}

// versionServer is a server of one version.
type versionServer struct {
	name    string
	address string
	key     string
	threads string  // of its process, in /proc
	served  *served // nil on SQLite
	bodies  []string
	ids     []string
	measured
}

// measured is what the rounds of a server say.
type measured struct {
	contender
	here, there []float64 // CPU time of the server and of PostgreSQL per call, in microseconds
}

// buildOld builds the server of a commit.
func buildOld(b *testing.B, commit string) string {
	b.Helper()
	folder := filepath.Join(b.TempDir(), "old")
	git := func(arguments ...string) {
		b.Helper()
		if text, err := exec.CommandContext(b.Context(), "git", arguments...).CombinedOutput(); err != nil {
			b.Fatalf("git %s: %v\n%s", arguments[0], err, text)
		}
	}
	git("worktree", "add", "--detach", folder, commit)
	b.Cleanup(func() { _ = exec.Command("git", "worktree", "remove", "--force", folder).Run() })
	return build(b, folder)
}

// build builds the server of the module in a folder.
func build(b *testing.B, folder string) string {
	b.Helper()
	program := filepath.Join(b.TempDir(), "tokenvault")
	cmd := exec.CommandContext(b.Context(), "go", "build", "-o", program, "./cmd/tokenvault")
	cmd.Dir = folder
	if text, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, text)
	}
	return program
}

// startVersion starts a server with a database of its own.
func startVersion(b *testing.B, on *backend, version, program string, evidence bool) *versionServer {
	b.Helper()
	folder, dsn := b.TempDir(), on.create(b)
	s := &versionServer{name: version, address: freeAddress(b)}
	if evidence {
		s.name += " with evidence"
	}
	if on == onPostgres {
		dsn += "&application_name=vault_" + strings.ReplaceAll(s.name, " ", "_")
		s.served = &served{dsn: dsn}
	}
	credentials := filepath.Join(folder, "credentials.json")
	cmd := exec.Command(program, "serve", "--demo", "--create-key", "--db", dsn, "--addr", s.address,
		"--key-file", filepath.Join(folder, "key"), "--credentials", credentials, fmt.Sprintf("--evidence=%t", evidence))
	must.Do(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGKILL)
		_ = cmd.Wait()
	})
	s.threads = fmt.Sprintf("/proc/%d/task/*/schedstat", cmd.Process.Pid)
	for {
		r, err := http.Get("http://" + s.address + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		if err == nil && r.StatusCode == http.StatusOK {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	var keys struct {
		Private string `json:"private_key"`
	}
	must.Do(b, json.Unmarshal(must.Get(os.ReadFile(credentials))(b), &keys))
	s.key = keys.Private
	for _, card := range cards() {
		s.bodies = append(s.bodies, string(must.Get(json.Marshal(card))(b)))
	}
	return s
}

// freeAddress returns an address on which nothing listens.
func freeAddress(b *testing.B) string {
	b.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// creates returns a function that creates a card.
func (s *versionServer) creates(b *testing.B, callers int) func() error {
	b.Helper()
	texts := make([][]byte, len(s.bodies))
	for i, body := range s.bodies {
		texts[i] = sent{"POST", "/tokens", s.key, body, http.StatusCreated}.text()
	}
	return leanCallers(b, s.address, callers, http.StatusCreated, func() []byte { return texts[rand.N(len(texts))] })
}

// reads returns a function that reads one of the tokens of readable.
func (s *versionServer) reads(b *testing.B, callers int) func() error {
	b.Helper()
	texts := make([][]byte, len(s.ids))
	for i, id := range s.ids {
		texts[i] = sent{"GET", "/tokens/" + id, s.key, "", http.StatusOK}.text()
	}
	return leanCallers(b, s.address, callers, http.StatusOK, func() []byte { return texts[rand.N(len(texts))] })
}

// readable creates the tokens that are read.
func (s *versionServer) readable(b *testing.B) {
	b.Helper()
	values := make([]string, versionTokens)
	for i := range values {
		values[i] = uuid.NewString()
	}
	conn := must.Get(net.Dial("tcp", s.address))(b)
	defer func() { _ = conn.Close() }()
	must.Get(conn.Write(sent{"POST", "/tokenize", s.key, string(must.Get(json.Marshal(values))(b)), http.StatusOK}.text()))(b)
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(b)
	defer func() { _ = answer.Body.Close() }()
	var body bytes.Buffer
	must.Get(body.ReadFrom(answer.Body))(b)
	if err := json.Unmarshal(body.Bytes(), &s.ids); err != nil || len(s.ids) != versionTokens {
		b.Fatalf("%s: %d %s: %v", s.name, answer.StatusCode, body.String(), err)
	}
}

// round runs one round.
func (s *versionServer) round(b *testing.B, callers int, counts bool) {
	b.Helper()
	here, there := s.cpu(b), s.served.nanoseconds(b)
	rate := must.Get(s.run(callers, versionTime))(b)
	if !counts {
		return
	}
	calls := rate * versionTime.Seconds()
	s.rates = append(s.rates, rate)
	s.here = append(s.here, float64(s.cpu(b)-here)/1e3/calls)
	s.there = append(s.there, float64(s.served.nanoseconds(b)-there)/1e3/calls)
}

// cpu returns the CPU time of the server so far, in nanoseconds.
func (s *versionServer) cpu(b *testing.B) (sum int64) {
	b.Helper()
	for _, file := range must.Get(filepath.Glob(s.threads))(b) {
		sum += scheduled(b, file)
	}
	return sum
}
