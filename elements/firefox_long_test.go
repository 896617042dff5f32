//go:build long

package elements_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// firefox is a Firefox that a test drives with WebDriver BiDi.
type firefox struct {
	t    *testing.T
	conn *websocket.Conn
	last int
}

// newFirefox starts a Firefox with a new profile.
func newFirefox(t *testing.T) *firefox {
	t.Helper()
	path, err := exec.LookPath("firefox-esr")
	if err != nil {
		path, err = exec.LookPath("firefox")
	}
	if err != nil {
		t.Fatal("Firefox is missing; install firefox-esr")
	}
	cmd := exec.CommandContext(t.Context(), path, "--headless", "--no-remote", "--profile", t.TempDir(), "--remote-debugging-port", "0", "--remote-allow-origins", "http://127.0.0.1")
	out := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, address, ok := strings.Cut(lines.Text(), "BiDi listening on "); ok {
			go func() { // Firefox must not wait for a reader
				for lines.Scan() {
				}
			}()
			f := &firefox{t: t, conn: must.Get(websocket.Dial(address+"/session", "", "http://127.0.0.1"))(t)}
			t.Cleanup(func() { _ = f.conn.Close() })
			must.Do(t, f.conn.SetDeadline(time.Now().Add(3*time.Minute)))
			f.call("session.new", `{"capabilities": {}}`, nil)
			return f
		}
	}
	t.Fatal("Firefox does not listen")
	return nil
}

// call sends a command and decodes its result.
func (f *firefox) call(method, params string, result any) {
	f.t.Helper()
	f.last++
	must.Do(f.t, websocket.Message.Send(f.conn, fmt.Sprintf(`{"id": %d, "method": %q, "params": %s}`, f.last, method, params)))
	for {
		var text string
		must.Do(f.t, websocket.Message.Receive(f.conn, &text))
		var answer struct {
			ID             int
			Error, Message string
			Result         json.RawMessage
		}
		must.Do(f.t, json.Unmarshal([]byte(text), &answer))
		if answer.ID != f.last {
			continue // an event
		}
		if answer.Error != "" {
			f.t.Fatalf("%s: %s: %s", method, answer.Error, answer.Message)
		}
		if result != nil {
			must.Do(f.t, json.Unmarshal(answer.Result, result))
		}
		return
	}
}

// document is a page, or a frame in it.
type document struct {
	Context, URL string
	Children     []document
}

func (f *firefox) page() document {
	f.t.Helper()
	var tree struct{ Contexts []document }
	f.call("browsingContext.getTree", `{}`, &tree)
	return tree.Contexts[0]
}

// value returns the value of an expression, or of a promise, in a page or a frame.
func (f *firefox) value(in, expression string) string {
	f.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails struct{ Text string }
	}
	f.call("script.evaluate", fmt.Sprintf(`{"expression": %s, "target": {"context": %q}, "awaitPromise": true}`, must.Get(json.Marshal(expression))(f.t), in), &out)
	if out.ExceptionDetails.Text != "" {
		f.t.Fatalf("%s: %s", expression, out.ExceptionDetails.Text)
	}
	return fmt.Sprint(out.Result.Value)
}

func (f *firefox) until(in, condition string) { untilTrue(f.t, f, in, condition) }

// press presses keys in a page or a frame.
func (f *firefox) press(in, keys string) {
	f.t.Helper()
	var actions []string
	for _, key := range keys {
		actions = append(actions, fmt.Sprintf(`{"type": "keyDown", "value": %q}, {"type": "keyUp", "value": %q}`, string(key), string(key)))
	}
	f.call("input.performActions", fmt.Sprintf(`{"context": %q, "actions": [{"type": "key", "id": "keys", "actions": [%s]}]}`, in, strings.Join(actions, ", ")), nil)
}

func (f *firefox) intoNumber(page, _ string) { f.value(page, `el.focus('number')`) }

// TestFirefox types a card in Firefox, and makes a token of it.
func TestFirefox(t *testing.T) {
	w := newWorld(t, nil)
	f := newFirefox(t)
	page := f.page().Context
	w.hostileContent()
	f.call("browsingContext.navigate", fmt.Sprintf(`{"context": %q, "url": %q, "wait": "complete"}`, page, w.origin), nil)
	f.until(page, `window.log?.some(([name]) => name === 'ready')`)
	frame := f.page().Children[0]
	must.Same(t, "the frame", w.el.URL+"/frame", frame.URL)
	testBrowser(t, f, page, frame.Context)
}
