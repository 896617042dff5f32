package serve

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// output is what a server prints, while it runs.
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

// TestTheConsoleOpensOnce starts a server, opens the link that it prints twice,
// and leaves a page open while the server stops.
func TestTheConsoleOpensOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	printed, ended := &output{more: make(chan struct{}, 1)}, make(chan error, 1)
	go func() {
		ended <- Main(ctx, []string{"-addr", "127.0.0.1:0", "-db", in("v.db"), "-key-file", in("k"), "-credentials", in("c.json")},
			func(string) string { return "" }, printed, io.Discard)
	}()
	var link string
	for link == "" {
		select {
		case <-printed.more:
			link = printed.find(`http://\S+/console/\?link=\S+`)
		case err := <-ended:
			t.Fatal(err)
		}
	}
	jar, _ := cookiejar.New(nil)
	first, second := &http.Client{Jar: jar}, &http.Client{}
	open := func(c *http.Client, address string) (int, string) {
		t.Helper()
		res, err := c.Get(address)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		body, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(body)
	}
	if status, body := open(first, link); status != http.StatusOK || !strings.Contains(body, "<h1>Overview</h1>") {
		t.Errorf("the link: %d %s", status, body)
	}
	if status, _ := open(second, link); status != http.StatusForbidden {
		t.Errorf("the link again: %d", status)
	}
	base, _, _ := strings.Cut(link, "/console/")
	if status, body := open(first, base+"/console"); status != http.StatusOK || !strings.Contains(body, "<h1>Overview</h1>") {
		t.Errorf("without the slash: %d", status)
	}
	if status, _ := open(second, base+"/openapi.json"); status != http.StatusOK {
		t.Errorf("the API beside it: %d", status)
	}
	live, err := first.Get(base + "/console/events")
	if err != nil {
		t.Fatal(err)
	}
	defer live.Body.Close()
	stop()
	if err := <-ended; err != nil { // not even that it had to give up the page
		t.Errorf("the server stopped: %v", err)
	}
}
