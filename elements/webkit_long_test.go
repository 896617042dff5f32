//go:build long

package elements_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// webkit is a WebKit that a test drives with WebDriver.
type webkit struct {
	t    *testing.T
	url  string // of the session
	last string // the document that commands go to
}

// Documents of a webkit.
const (
	wholePage = "page"
	ourFrame  = "frame"
)

// newWebKit starts the browser of WebKitGTK on an invisible screen.
func newWebKit(t *testing.T) *webkit {
	t.Helper()
	all := must.Get(filepath.Glob("/usr/lib/*/webkit2gtk-4.1/MiniBrowser"))(t)
	driver, err := exec.LookPath("WebKitWebDriver")
	screen, missing := exec.LookPath("Xvfb")
	if err != nil || missing != nil || len(all) == 0 {
		t.Fatal("WebKit is missing; install webkit2gtk-driver and xvfb")
	}
	read, write, err := os.Pipe()
	must.Do(t, err)
	x := exec.CommandContext(t.Context(), screen, "-displayfd", "3", "-screen", "0", "1000x800x24", "-nolisten", "tcp", "-noreset")
	x.ExtraFiles = []*os.File{write}
	start(t, x)
	must.Do(t, write.Close())
	display := must.Get(bufio.NewReader(read).ReadString('\n'))(t) // when the screen is ready
	must.Do(t, read.Close())
	home := t.TempDir()
	env := append(os.Environ(), "DISPLAY=:"+strings.TrimSpace(display), "GDK_BACKEND=x11", "HOME="+home, "XDG_RUNTIME_DIR="+home,
		"LIBGL_ALWAYS_SOFTWARE=1", "WEBKIT_DISABLE_COMPOSITING_MODE=1", "WEBKIT_DISABLE_SANDBOX_THIS_IS_DANGEROUS=1", "NO_AT_BRIDGE=1")
	options := fmt.Sprintf(`{"capabilities": {"alwaysMatch": {"webkitgtk:browserOptions": {"binary": %q, "args": ["--automation"]}}}}`, all[0])
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	must.Do(t, l.Close())
	_, port, _ := strings.Cut(address, ":")
	cmd := exec.CommandContext(t.Context(), driver, "--host=127.0.0.1", "--port="+port)
	cmd.Env = env
	start(t, cmd)
	k := &webkit{t: t, url: "http://" + address, last: wholePage}
	must.Do(t, k.open(options))
	return k
}

// open opens a session, as soon as the driver is ready. The browser ends with the session.
func (k *webkit) open(options string) error {
	ctx, cancel := context.WithTimeout(k.t.Context(), 2*time.Minute)
	defer cancel()
	for err := error(syscall.ECONNREFUSED); err != nil; err = k.send(ctx, http.MethodGet, "/status", "", new(any)) {
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
	var session struct{ SessionID string }
	if err := k.send(ctx, http.MethodPost, "/session", options, &session); err != nil {
		return err
	}
	k.url += "/session/" + session.SessionID
	k.t.Cleanup(func() { _ = k.send(context.WithoutCancel(k.t.Context()), http.MethodDelete, "", "", new(any)) })
	return nil
}

// start starts a program, which ends with the test.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// send sends a command, and decodes the value of its result.
func (k *webkit) send(ctx context.Context, method, path, body string, result any) error {
	req, err := http.NewRequestWithContext(ctx, method, k.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, text)
	}
	answer := struct{ Value any }{result}
	return json.Unmarshal(text, &answer)
}

func (k *webkit) call(path, body string, result any) {
	k.t.Helper()
	must.Do(k.t, k.send(k.t.Context(), http.MethodPost, path, body, result))
}

// enter makes commands go to the page or to the frame.
func (k *webkit) enter(in string) {
	k.t.Helper()
	if in == k.last {
		return
	}
	k.last = in
	if in == wholePage {
		k.call("/frame", `{"id": null}`, new(any))
		return
	}
	var frame any
	k.call("/execute/sync", `{"script": "return root.querySelector('iframe')", "args": []}`, &frame)
	k.call("/frame", `{"id": `+string(must.Get(json.Marshal(frame))(k.t))+`}`, new(any))
}

// value returns the value of an expression, or of a promise.
func (k *webkit) value(in, expression string) string {
	k.t.Helper()
	k.enter(in)
	script := `const done = arguments[0]; (async () => String(await (` + expression + `)))().then(done, (e) => done('failed: ' + e))`
	var out string
	k.call("/execute/async", `{"script": `+string(must.Get(json.Marshal(script))(k.t))+`, "args": []}`, &out)
	if strings.HasPrefix(out, "failed: ") {
		k.t.Fatalf("%s %s", expression, out)
	}
	return out
}

// press presses keys.
func (k *webkit) press(in, keys string) {
	k.t.Helper()
	k.enter(in)
	var actions []string
	for _, key := range keys {
		actions = append(actions, fmt.Sprintf(`{"type": "keyDown", "value": %q}, {"type": "keyUp", "value": %q}`, string(key), string(key)))
	}
	k.call("/actions", `{"actions": [{"type": "key", "id": "keys", "actions": [`+strings.Join(actions, ", ")+`]}]}`, new(any))
}

// intoNumber clicks, because WebKit lets no frame of another origin take the focus before.
func (k *webkit) intoNumber(_, frame string) {
	k.t.Helper()
	k.enter(frame)
	var input map[string]string
	k.call("/element", `{"using": "css selector", "value": "#cc-number"}`, &input)
	for _, id := range input {
		k.call("/element/"+id+"/click", `{}`, new(any))
	}
}

// TestWebKit types a card in WebKit, and makes a token of it.
func TestWebKit(t *testing.T) {
	w := newWorld(t, nil)
	k := newWebKit(t)
	w.hostileContent()
	k.call("/url", fmt.Sprintf(`{"url": %q}`, w.origin), new(any))
	untilTrue(t, k, wholePage, `window.log?.some(([name]) => name === 'ready')`)
	testBrowser(t, k, wholePage, ourFrame)
}
