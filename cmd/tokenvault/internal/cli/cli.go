// Package cli is the command line of the program tokenvault: its commands, and
// what they share. One table of commands drives parsing, help and completion.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/script"
)

// Exit codes of the program.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitNotFound  = 3
	exitForbidden = 4
	exitTampered  = 5
	exitUnsure    = 6
)

// Streams are where the program reads and writes.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs the program and returns its exit code. It ends when ctx does, at the
// latest.
func Run(ctx context.Context, args []string, getenv func(string) string, io Streams) int {
	p := &program{getenv: getenv, Streams: io}
	err := p.run(ctx, args)
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if !errors.Is(err, errReported) {
		fmt.Fprintln(p.Err, printable("tokenvault: "+strings.ReplaceAll(fault.Text(err)+codeMessages(err), "\n", "\n  ")))
	}
	return exitCode(err)
}

// codeMessages is what tenants' code says of its failure, as the API answers it.
func codeMessages(err error) string {
	var failed *script.Error
	if !errors.As(err, &failed) {
		return ""
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(failed.Messages)) {
		fmt.Fprintf(&b, "\n%s: %s", name, strings.Join(failed.Messages[name], " "))
	}
	return b.String()
}

// program is one run of the program.
type program struct {
	Streams
	getenv func(string) string
}

// usageError says how the program was misused.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// errReported means that what failed has been reported, item by item.
var errReported = errors.New("something failed")

// exitCode maps an error to what scripts branch on.
func exitCode(err error) int {
	var usage *usageError
	var flags *serve.FlagError
	switch {
	case errors.As(err, &usage), errors.As(err, &flags):
		return exitUsage
	case errors.Is(err, errTampered):
		return exitTampered
	case errors.Is(err, errCannotTell):
		return exitUnsure
	case errors.Is(err, vault.ErrNotFound):
		return exitNotFound
	case errors.Is(err, vault.ErrForbidden), errors.Is(err, vault.ErrUnauthenticated):
		return exitForbidden
	}
	return exitFailed
}

// run finds the command and runs it.
func (p *program) run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		p.overview(p.Err)
		return usagef("no command is given; the commands are above")
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		return p.help(args[1:])
	case completeWord:
		return p.complete(args[1:])
	}
	cmd, rest, err := find(args)
	if err != nil {
		return err
	}
	c, err := p.parse(cmd, rest)
	if errors.Is(err, flag.ErrHelp) {
		p.manual(p.Out, cmd)
		return err
	}
	if err != nil {
		return err
	}
	c.ctx = ctx
	err = c.act(c)
	return errors.Join(err, c.close())
}

// find returns the command that the arguments begin with, and what follows it.
func find(args []string) (*command, []string, error) {
	for words := min(len(args), 2); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, cmd := range commands() {
			if cmd.name == name {
				return cmd, args[words:], nil
			}
		}
	}
	if group := inGroup(args[0]); len(group) > 0 {
		return nil, nil, usagef("tokenvault %s takes one of: %s; see tokenvault help %s", args[0], strings.Join(group, ", "), args[0])
	}
	if strings.HasPrefix(args[0], "-") {
		return nil, nil, usagef("the command comes first, and its flags after it; see tokenvault --help")
	}
	return nil, nil, usagef("there is no command of this name; see tokenvault --help")
}

// inGroup returns the second words of the commands that begin with a word.
func inGroup(first string) []string {
	var group []string
	for _, cmd := range commands() {
		if rest, ok := strings.CutPrefix(cmd.name, first+" "); ok {
			group = append(group, rest)
		}
	}
	return group
}
