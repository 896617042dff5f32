package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// terminal is a pseudo terminal: what a program writes to its tty is what would
// be drawn.
type terminal struct {
	tty   *os.File
	drawn chan string // gets everything once the tty is closed everywhere
}

// newTerminal opens a terminal of a width; 0 stands for one that does not say.
func newTerminal(t *testing.T, width int) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fd := int(master.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	d := &terminal{tty: tty, drawn: make(chan string, 1)}
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, master) // ends with an error once the tty is closed
		master.Close()
		d.drawn <- all.String()
	}()
	return d
}

// finish closes the tty and returns all that was written to it.
func (d *terminal) finish() string {
	d.tty.Close()
	return <-d.drawn
}

var colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// screen is what is left to see of output: of a line that was drawn over, its
// last state.
func screen(output string) string {
	var lines []string
	for line := range strings.SplitSeq(colour.ReplaceAllString(output, ""), "\r\n") {
		states := strings.Split(line, "\r")
		lines = append(lines, strings.TrimSuffix(states[len(states)-1], "\x1b[K"))
	}
	return strings.Join(lines, "\n")
}

// states are all states of progress lines.
func states(output string) []string {
	var all []string
	for _, state := range strings.Split(output, "\r")[1:] {
		state, _, _ = strings.Cut(state, "\x1b[K")
		all = append(all, state)
	}
	return all
}

func TestTheBannerHasColoursOnATerminalAlone(t *testing.T) {
	t.Parallel()
	c := &credentials{"http://127.0.0.1:8080", "tenant-id", "key_pub_1", "key_prv_1", "key_mgt_1"}
	cfg := &config{prefix: "SVC-", credentials: "c.json", keyFile: "k"}
	plain := `The vault is listening at http://127.0.0.1:8080

  tenant          tenant-id
  public key      key_pub_1
  private key     key_prv_1
  management key  key_mgt_1

The API keys are in c.json, and the master key is in k.
Anyone with the master key and the database can read everything.

Create a card token, read it masked, and tokenize a JSON document:

curl -sS -w '\n' -H 'SVC-API-KEY: key_pub_1' -H 'Content-Type: application/json' -d '` + demoCard + `' http://127.0.0.1:8080/tokens
curl -sS -w '\n' -H 'SVC-API-KEY: key_prv_1' 'http://127.0.0.1:8080/tokens?type=card&size=1'
curl -sS -w '\n' -H 'SVC-API-KEY: key_prv_1' -H 'Content-Type: application/json' -d '` + demoDocument + `' http://127.0.0.1:8080/tokenize

The API is described at http://127.0.0.1:8080/openapi.json. Ctrl-C stops the server.
`
	var out bytes.Buffer
	banner(&out, c, cfg)
	if diff := cmp.Diff(plain, out.String()); diff != "" {
		t.Errorf("plain (-want +got):\n%s", diff)
	}
	d := newTerminal(t, 80)
	banner(d.tty, c, cfg)
	coloured := d.finish()
	if !colour.MatchString(coloured) {
		t.Error("no colours on a terminal")
	}
	if diff := cmp.Diff(strings.ReplaceAll(plain, "\ncurl", "\n\ncurl"), strings.ReplaceAll(screen(coloured), "document:\n\ncurl", "document:\n\n\ncurl")); diff != "" {
		t.Errorf("on a terminal (-want +got):\n%s", diff)
	}
}

func TestWhoWantsColours(t *testing.T) {
	t.Parallel()
	d := newTerminal(t, 80)
	for _, c := range []struct {
		w    io.Writer
		env  map[string]string
		want bool
	}{
		{d.tty, map[string]string{"TERM": "xterm"}, true},
		{d.tty, nil, true},
		{d.tty, map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, false},
		{d.tty, map[string]string{"TERM": "dumb"}, false},
		{io.Discard, map[string]string{"TERM": "xterm"}, false},
	} {
		got := newPalette(c.w, func(name string) string { return c.env[name] }).bold("x")
		if (got == "\x1b[1mx\x1b[0m") != c.want || !c.want && got != "x" {
			t.Errorf("%v: %q", c.env, got)
		}
	}
	d.finish()
}

func TestNewTenantOnATerminal(t *testing.T) {
	t.Parallel()
	d := newTerminal(t, 80)
	cmd := command(t.TempDir(), "", "-new-tenant", "Acme")
	cmd.Stderr = d.tty
	out, err := cmd.Output()
	drawn := d.finish()
	if err != nil {
		t.Fatalf("%v\n%s", err, drawn)
	}
	var c credentials
	if err := json.Unmarshal(out, &c); err != nil || strings.Count(string(out), "\n") != 1 {
		t.Errorf("not one line of JSON: %s", out)
	}
	if !strings.Contains(drawn, "Creating ") || screen(drawn) != "" {
		t.Errorf("drawn: %q, left: %q", drawn, screen(drawn))
	}
}
