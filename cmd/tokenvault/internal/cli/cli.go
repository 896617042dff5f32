// Package cli is the command line of tokenvault: its commands and their
// shared code. Parsing, help and completion all use one table of commands.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
	"github.com/seed-72ea4aab/vault/internal/terminal"
	"github.com/seed-72ea4aab/vault/script"
)

// Exit codes of the program.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitForbidden   = 4
	exitTampered    = 5
	exitUnsure      = 6
	exitInterrupted = 130 // as shells report SIGINT
)

// Streams are the standard streams of the program.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
}

// Run runs the program and returns its exit code. It stops when ctx is done.
func Run(ctx context.Context, args []string, getenv func(string) string, io Streams) int {
	return newProgram(getenv, io, systemUser).main(ctx, args)
}

// newProgram returns a program. Alarms of a vault go to Err beside the messages of a
// command, so Err must allow concurrent writes, as a file does.
func newProgram(getenv func(string) string, streams Streams, user func() string) *program {
	if _, file := streams.Err.(*os.File); !file {
		streams.Err = terminal.NewProgress(streams.Err) // a line that is never shown
	}
	return &program{getenv: getenv, Streams: streams, systemUser: user}
}

// main runs the program and returns its exit code.
func (p *program) main(ctx context.Context, args []string) int {
	return p.exit(ended(ctx, p.run(ctx, args)))
}

// exit prints an error and returns its exit code.
func (p *program) exit(err error) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	var reported *serve.ReportedError
	if !errors.Is(err, errReported) && !errors.As(err, &reported) {
		fmt.Fprintln(p.Err, shell.Printable("tokenvault: "+strings.ReplaceAll(shell.Told(err)+codeMessages(err), "\n", "\n  ")))
	}
	return exitCode(err)
}

// codeMessages returns the messages of an error of tenants' code, as in a
// response of the API.
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
	getenv     func(string) string
	systemUser func() string
}

// errReported means that the failed items have already been reported.
var errReported = errors.New("something failed")

// exitCode returns the exit code for an error.
func exitCode(err error) int {
	var usage *shell.UsageError
	var flags *serve.FlagError
	var stopped *interrupted
	switch {
	case errors.As(err, &stopped):
		return exitInterrupted
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
		return shell.Usagef("no command is given; see the commands above")
	}
	switch args[0] {
	case "-h", "-help", "--help", "help":
		return p.help(args[1:])
	case "-version", "--version":
		args = []string{"version"}
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

// find returns the command that the arguments start with, and the other
// arguments.
func find(args []string) (*command, []string, error) {
	for words := min(len(args), 3); words > 0; words-- {
		name := strings.Join(args[:words], " ")
		for _, cmd := range commands() {
			if cmd.name == name {
				return cmd, args[words:], nil
			}
		}
	}
	for words := min(len(args), 2); words > 0; words-- {
		first := strings.Join(args[:words], " ")
		group := inGroup(first)
		if len(group) == 0 {
			continue
		}
		if len(args) > words {
			if meant := shell.Suggestion(args[words], group); meant != "" {
				return nil, nil, shell.Usagef("unknown command; did you mean tokenvault %s %s?", first, meant)
			}
		}
		return nil, nil, shell.Usagef("tokenvault %s takes one of: %s; see tokenvault help %s", first, strings.Join(group, ", "), first)
	}
	if strings.HasPrefix(args[0], "-") {
		return nil, nil, shell.Usagef("the command comes first, and its flags after it; see tokenvault --help")
	}
	return nil, nil, unknownCommand(args)
}

// inGroup returns the other words of the commands that begin with given words.
func inGroup(first string) []string {
	var group []string
	for _, cmd := range commands() {
		if rest, ok := strings.CutPrefix(cmd.name, first+" "); ok {
			group = append(group, rest)
		}
	}
	return group
}
