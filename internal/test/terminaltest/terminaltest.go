//go:build linux

// Package terminaltest provides a pseudo terminal for tests.
package terminaltest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// Terminal is a pseudo terminal. It records everything that a program writes
// to its tty.
type Terminal struct {
	TTY    *os.File
	master *os.File
	drawn  chan string // receives the output after the tty is closed
}

// New opens a terminal with a width; 0 means unknown.
func New(t *testing.T, width int) *Terminal {
	t.Helper()
	master := must.Get(os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0))(t)
	fd := int(master.Fd())
	number := must.Get(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	must.Do(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	tty := must.Get(os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0))(t)
	must.Do(t, unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}))
	d := &Terminal{TTY: tty, master: master, drawn: make(chan string, 1)}
	go func() {
		var all bytes.Buffer
		_, _ = io.Copy(&all, master) // ends with an error once the tty is closed
		_ = master.Close()
		d.drawn <- all.String()
	}()
	return d
}

// Type types a text like a person at the terminal.
func (d *Terminal) Type(text string) {
	_, _ = d.master.WriteString(text)
}

// Finish closes the tty and returns its output.
func (d *Terminal) Finish() string {
	_ = d.TTY.Close()
	return <-d.drawn
}

// Colour matches escape sequences for colors.
var Colour = regexp.MustCompile(`\x1b\[[0-9;]*m`)

// Screen returns the visible output: for a redrawn line, its last state.
func Screen(output string) string {
	var lines []string
	for line := range strings.SplitSeq(Colour.ReplaceAllString(output, ""), "\r\n") {
		states := strings.Split(line, "\r")
		lines = append(lines, strings.TrimSuffix(states[len(states)-1], "\x1b[K"))
	}
	return strings.Join(lines, "\n")
}

// States returns all states of progress lines.
func States(output string) []string {
	var all []string
	for _, state := range strings.Split(output, "\r")[1:] {
		state, _, _ = strings.Cut(state, "\x1b[K")
		all = append(all, state)
	}
	return all
}
