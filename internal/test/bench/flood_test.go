//go:build !race

package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// floodVariable makes this test binary send the flood that the variable
// describes.
const floodVariable = "VAULT_BENCH_FLOOD"

// flood is one kind of request that a tenant sends many times at once.
type flood struct {
	Name    string
	Callers int
	Method  string
	Path    string
	URL     string
	Key     string
	Silent  bool // prints no statuses
}

var floods = []flood{
	{Name: "masks", Callers: 16, Method: "POST", Path: "/tokens"},
	{Name: "brackets", Callers: 8, Method: "POST", Path: "/tokens"},
	{Name: "numbers", Callers: 20, Method: "POST", Path: "/tokens"},
	{Name: "batches", Callers: 20, Method: "POST", Path: "/tokenize"},
	{Name: "pages", Callers: 20, Method: "GET", Path: "/tokens?metadata.size=large&size=100"},
}

// body returns the request body: the most expensive body that the vault accepts
// for this flood.
func (f *flood) body() string {
	const most = 5<<20 - 100
	switch f.Name {
	case "masks":
		costly := `{{ data | json: '$[?$[?$[?@.zz]]]' }}`
		return fmt.Sprintf(`{"type":"token","data":[%s1],"mask":%q,"fingerprint_expression":%[2]q,"search_indexes":[%[3]s%[2]q]}`,
			strings.Repeat("1,", 129), costly, strings.Repeat(fmt.Sprintf("%q,", costly), 9))
	case "brackets":
		return `{"type":"token","data":[` + strings.Repeat("[],", most/3) + `[]]}`
	case "numbers":
		return `{"type":"token","data":[` + strings.Repeat("1,", most/2) + `1]}`
	case "batches":
		return `[` + strings.Repeat(`"4242-4242",`, 19_999) + `"4242-4242"]`
	}
	return ""
}

// runFlood sends a flood until its process is killed. It prints the statuses.
func runFlood(job string) {
	var f flood
	if err := json.Unmarshal([]byte(job), &f); err != nil {
		panic(err)
	}
	body := f.body()
	http.DefaultTransport.(*http.Transport).MaxIdleConnsPerHost = f.Callers
	var callers sync.WaitGroup
	for range f.Callers {
		callers.Go(func() {
			for {
				if status := f.send(body); !f.Silent {
					fmt.Println(status)
				}
			}
		})
	}
	callers.Wait()
}

// send sends one request and returns its status or error.
func (f *flood) send(body string) string {
	req, err := http.NewRequest(f.Method, f.URL+f.Path, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	req.Header.Set("SVC-API-KEY", f.Key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.Status
}

// floodTime is the length of each flood, and of the quiet time before it.
const floodTime = 5 * time.Second

// BenchmarkFlood measures short requests of one tenant, first alone and then
// while another tenant sends a flood.
func BenchmarkFlood(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		v := newUser(b, on.openStore(b, on.create(b))).vault
		front := httptest.NewServer(httpserver.Handler(v, nil))
		b.Cleanup(front.Close)
		victim, hostile := keyOfNewTenant(b, v), keyOfNewTenant(b, v)
		fillPage(b, v, hostile)
		request := func() []time.Duration { return createAndRead(b, front.URL, victim) }
		for _, f := range floods {
			b.Run(f.Name, func(b *testing.B) {
				settle(b, front.URL, victim)
				quiet := sortedTimes(request)
				f.URL, f.Key = front.URL, hostile
				stop := f.start(b)
				flooded := sortedTimes(request)
				answers := stop()
				goal := max(5, float64(10*time.Millisecond)/float64(p99(quiet)))
				report(b, figure{what: "p99 of another tenant in a flood of " + f.Name + " / quiet", metric: "x/quiet", backend: on.name,
					callers: "1", value: float64(p99(flooded)) / float64(p99(quiet)), unit: "x", goal: goal, atMost: true,
					rates: fmt.Sprintf("quiet %.1f ms, flooded %.1f ms; the flood got %s", ms(p99(quiet)), ms(p99(flooded)), answers)})
			})
		}
	})
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func p99(times []time.Duration) time.Duration { return times[len(times)*99/100] }

// keyOfNewTenant creates a tenant and returns a key of its private application.
func keyOfNewTenant(b *testing.B, v *vault.Vault) string {
	b.Helper()
	tenant := must.Get(v.CreateTenant(b.Context(), "Bench"))(b)
	app := must.Get(v.Tenant(tenant.ID).CreateApplication(b.Context(), vault.ApplicationParams{
		Name: "Bench", Type: vault.ApplicationPrivate, Permissions: vault.AllPermissions(vault.ApplicationPrivate)}))(b)
	return app.Key
}

// sortedTimes makes calls for floodTime. It returns the durations of all of them,
// sorted.
func sortedTimes(call func() []time.Duration) (times []time.Duration) {
	for end := time.Now().Add(floodTime); time.Now().Before(end); {
		times = append(times, call()...)
	}
	slices.Sort(times)
	return times
}

// createAndRead creates and reads a token. It returns the duration of each
// request.
func createAndRead(b *testing.B, url, key string) []time.Duration {
	b.Helper()
	call := func(f flood, body, want string) time.Duration {
		f.URL, f.Key = url, key
		start := time.Now()
		if got := f.send(body); !strings.HasPrefix(got, want) {
			b.Fatalf("%s %s: %s", f.Method, f.Path, got)
		}
		return time.Since(start)
	}
	id := fmt.Sprintf("tok-%d", time.Now().UnixNano())
	return []time.Duration{
		call(flood{Method: "POST", Path: "/tokens"}, fmt.Sprintf(`{"id":%q,"type":"card","data":{"number":"4242424242424242"}}`, id), "201"),
		call(flood{Method: "GET", Path: "/tokens/" + id}, "", "200"),
	}
}

// settle waits until the work that an earlier flood left behind is done.
func settle(b *testing.B, url, key string) {
	b.Helper()
	for end, fast := time.Now().Add(time.Minute), 0; fast < 200 && time.Now().Before(end); fast++ {
		if slices.Max(createAndRead(b, url, key)) > 20*time.Millisecond {
			fast = 0
		}
	}
}

// fillPage creates tokens for the hostile tenant until a page has its maximum
// size.
func fillPage(b *testing.B, v *vault.Vault, key string) {
	b.Helper()
	c := must.Get(v.Authenticate(b.Context(), key))(b)
	large := strings.Repeat("x", 600<<10)
	for range 100 {
		if _, err := c.CreateToken(b.Context(), vault.TokenParams{Type: vault.TypeGeneric, Data: large, Metadata: map[string]string{"size": "large"}}); err != nil {
			b.Fatal(err)
		}
	}
}

// start sends a flood from another process and returns after the first
// response. stop ends the flood and counts the responses.
func (f flood) start(b *testing.B) (stop func() string) {
	b.Helper()
	job := must.Get(json.Marshal(f))(b)
	cmd := exec.CommandContext(b.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), floodVariable+"="+string(job))
	var out answers
	out.first = make(chan struct{})
	cmd.Stdout = &out
	must.Do(b, cmd.Start())
	select {
	case <-out.first:
	case <-time.After(time.Minute):
		b.Fatal("the flood got no response")
	}
	return func() string {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return out.String()
	}
}

// answers collects printed statuses and counts them.
type answers struct {
	mu    sync.Mutex
	text  bytes.Buffer
	first chan struct{}
}

func (a *answers) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text.Len() == 0 {
		close(a.first)
	}
	return a.text.Write(p)
}

func (a *answers) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := map[string]int{}
	for line := range strings.Lines(a.text.String()) {
		counts[strings.TrimSpace(line)]++
	}
	return strings.TrimPrefix(fmt.Sprint(counts), "map")
}
