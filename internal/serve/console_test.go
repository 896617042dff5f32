package serve

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// output collects the output of a running server.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.more <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) find(pattern string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return regexp.MustCompile(pattern).FindString(o.text.String())
}

// running is a server in this process.
type running struct {
	t       *testing.T
	printed *output
	ended   chan error
	stop    context.CancelFunc
}

// runServer starts a server with files in a folder of the test.
func runServer(t *testing.T, args ...string) *running { return runServerWith(t, OIDC{}, args...) }

func runServerWith(t *testing.T, oidc OIDC, args ...string) *running {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ctx, stop := context.WithCancel(t.Context())
	s := &running{t: t, printed: &output{more: make(chan struct{}, 1)}, ended: make(chan error, 1), stop: stop}
	args = append([]string{"-addr", "127.0.0.1:0", "-drain-delay", "0", "-db", in("v.db"), "-key-file", in("k"), "-credentials", in("c.json")}, args...)
	go func() { s.ended <- Main(ctx, args, oidc, func(string) string { return "" }, s.printed, s.printed) }()
	t.Cleanup(stop)
	return s
}

// await waits until the output of the server matches a pattern.
func (s *running) await(pattern string) string {
	s.t.Helper()
	for {
		if found := s.printed.find(pattern); found != "" {
			return found
		}
		select {
		case <-s.printed.more:
		case err := <-s.ended:
			s.t.Fatalf("the server ended: %v", err)
		}
	}
}

// end stops the server, which must shut down without waiting.
func (s *running) end() {
	s.t.Helper()
	s.stop()
	must.Match(s.t, "the server ended", <-s.ended, nil)
}

const linkPattern = `https?://\S+\?link=[A-Z0-9]+`

// get opens a page.
func get(t *testing.T, c *http.Client, address string) (int, string) {
	t.Helper()
	res := must.Get(c.Get(address))(t)
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(body)
}

// TestPrintedLinkOpensOnce opens the printed link twice, and leaves a page open
// while the server stops.
func TestPrintedLinkOpensOnce(t *testing.T) {
	t.Parallel()
	s := runServer(t)
	link := s.await(linkPattern)
	jar, _ := cookiejar.New(nil)
	first, second := &http.Client{Jar: jar}, &http.Client{}
	if status, body := get(t, first, link); status != http.StatusOK || !strings.Contains(body, "<h1>Overview</h1>") {
		t.Errorf("the link: %d %s", status, body)
	}
	if status, _ := get(t, second, link); status != http.StatusForbidden {
		t.Errorf("the link again: %d", status)
	}
	page, _, _ := strings.Cut(link, "?")
	live, err := first.Get(page + "events")
	if err != nil || live.StatusCode != http.StatusOK {
		t.Fatal(live, err)
	}
	defer live.Body.Close()
	s.end()
}

// TestConsoleHasItsOwnOrigin checks that the console and the API
// listen on different ports, and that neither serves the paths of the other.
func TestConsoleHasItsOwnOrigin(t *testing.T) {
	t.Parallel()
	s := runServer(t)
	link := s.await(linkPattern)
	_, api, _ := strings.Cut(s.await(`listening at \S+`), " at ")
	at := must.Get(url.Parse(link))(t)
	origin := at.Scheme + "://" + at.Host
	if origin == api || at.Hostname() != "127.0.0.1" {
		t.Errorf("the console is at %s, and the API at %s", origin, api)
	}
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for address, want := range map[string]int{
		api + "/openapi.json": http.StatusOK, api + "/console/": http.StatusNotFound, api + "/console": http.StatusNotFound,
		api + at.RequestURI(): http.StatusNotFound, origin + "/": http.StatusForbidden, origin + "/openapi.json": http.StatusForbidden,
		origin + "/proxy": http.StatusForbidden, origin + "/metrics": http.StatusForbidden,
	} {
		if status, _ := get(t, c, address); status != want {
			t.Errorf("%s: %d, want %d", address, status, want)
		}
	}
	s.end()
}

// TestConsoleRequiresAFlag checks which flags start a console, and where its link
// leads.
func TestConsoleRequiresAFlag(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		link string // "" for none
	}{
		"turned off":     {[]string{"-console", ""}, ""},
		"without a demo": {[]string{"-demo=false", "-console", "127.0.0.1:0"}, "^http://127"},
		"behind a proxy": {[]string{"-console-url", "https://console.example.com/vault"}, `^https://console\.example\.com/vault/\?link=`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := runServer(t, c.args...)
			if c.link == "" {
				s.await("Ctrl-C")
				must.Same(t, "got a console at", "", s.printed.find(linkPattern))
			} else if got := s.await(linkPattern); !regexp.MustCompile(c.link).MatchString(got) {
				t.Errorf("the link is %s", got)
			}
			s.end()
		})
	}
	var tool Config
	tool.Flags(flag.NewFlagSet("", flag.ContinueOnError))
	if tool.consoleFlags.addr != "" || newConsole(&tool) != nil {
		t.Error("tokenvault serve has a console without a flag")
	}
}

// TestNewLinkIsPrintedAfterTheSession checks that a request after the end of the session
// prints a new link, and that no earlier request does.
func TestNewLinkIsPrintedAfterTheSession(t *testing.T) {
	t.Parallel()
	var printed strings.Builder
	c := newConsole(&Config{consoleFlags: consoleFlags{addr: freePort}})
	logger := slog.New(slog.DiscardHandler)
	h := c.server(newVault(t), vault.NewKey(), "http://127.0.0.1:8081", logger).Handler
	c.banner(&printed, terminal.Palette{}, true, logger)
	printed.Reset()
	for range 2 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
	if printed.Len() > 0 {
		t.Errorf("before anybody signed in, it prints %q", printed.String())
	}
	synctest.Test(t, func(t *testing.T) {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, c.link.URL(c.base), nil))
		time.Sleep(31 * time.Minute)
		for range 2 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
	})
	if got := printed.String(); strings.Count(got, "\n") != 1 || !regexp.MustCompile(linkPattern).MatchString(got) {
		t.Errorf("after the session, it prints %q", got)
	}
}

func TestConsoleInClear(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cfg  Config
		want bool
	}{
		{Config{consoleFlags: consoleFlags{addr: "127.0.0.1:8081"}}, false}, {Config{consoleFlags: consoleFlags{addr: "[::1]:8081"}}, false}, {Config{consoleFlags: consoleFlags{addr: "localhost:8081"}}, false},
		{Config{consoleFlags: consoleFlags{addr: ":8081"}}, true}, {Config{consoleFlags: consoleFlags{addr: "0.0.0.0:8081"}}, true}, {Config{consoleFlags: consoleFlags{addr: "10.0.0.1:8081"}}, true},
		{Config{consoleFlags: consoleFlags{addr: ":8081"}, tlsCert: "x"}, false}, {Config{consoleFlags: consoleFlags{addr: ":8081", url: "https://x/"}}, false},
		{Config{consoleFlags: consoleFlags{addr: ":8081", url: "http://x/"}}, true},
	} {
		must.Same(t, fmt.Sprintf("%+v", c.cfg), c.want, c.cfg.consoleInClear())
	}
}
