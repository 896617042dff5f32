package cli

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// interrupted is the error of a command that a signal has ended.
type interrupted struct {
	what string // what was in progress
	hint string // how to continue, if possible
}

func (e *interrupted) Error() string {
	text := "interrupted"
	if e.what != "" {
		text += " " + e.what
	}
	if e.hint != "" {
		text += "\n" + e.hint
	}
	return text
}

// ended returns err, or an interrupted error if a signal caused err.
func ended(ctx context.Context, err error) error {
	var already *interrupted
	if err == nil || ctx.Err() == nil || errors.As(err, &already) || !errors.Is(err, ctx.Err()) {
		return err
	}
	return &interrupted{}
}

// unknownCommand returns the error for a command that does not exist.
func unknownCommand(args []string) error {
	var names, first []string
	for _, cmd := range commands() {
		names = append(names, cmd.name)
		word, _, _ := strings.Cut(cmd.name, " ")
		first = append(first, word)
	}
	meant := ""
	if len(args) > 1 {
		meant = shell.Suggestion(args[0]+" "+args[1], names)
	}
	if meant == "" {
		meant = shell.Suggestion(args[0], slices.Concat(first, names))
	}
	if meant == "" {
		return shell.Usagef("unknown command; see tokenvault --help")
	}
	return shell.Usagef("unknown command; did you mean tokenvault %s? See tokenvault --help", meant)
}

// errDeclined means that the operator answered no.
var errDeclined = errors.New("nothing was done")

// confirm requires confirmation before an irreversible action. Without a terminal,
// --yes is required.
func (c *call) confirm(question string) error {
	if c.yes {
		return nil
	}
	if !c.canAsk() {
		return shell.Usagef("tokenvault %s needs a confirmation, and there is no terminal: use --yes", c.cmd.name)
	}
	if _, err := io.WriteString(c.Err, question+" [y/N] "); err != nil {
		return err
	}
	answer, err := c.readLine()
	if err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errDeclined
}

// readLine reads a line of input until a signal ends the command. Reading
// from a terminal cannot be interrupted, so the goroutine keeps reading until
// the program exits.
func (c *call) readLine() (string, error) {
	type answer struct {
		text string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		text, err := bufio.NewReader(c.In).ReadString('\n')
		read <- answer{text, err}
	}()
	select {
	case a := <-read:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return "", a.err
		}
		return a.text, nil
	case <-c.ctx.Done():
		_, _ = io.WriteString(c.Err, "\n") // so that the question keeps its line
		return "", &interrupted{hint: errDeclined.Error()}
	}
}

// canAsk reports whether a person can read a question and type a reply.
func (c *call) canAsk() bool {
	in, ok := c.In.(*os.File)
	if !ok {
		return false
	}
	_, reads := terminal.Columns(c.Err)
	_, answers := terminal.Columns(in)
	return reads && answers
}

// confirmClear requires confirmation before plaintext is printed to a terminal,
// where others may see it and the scrollback keeps it.
func (c *call) confirmClear() error {
	if _, shown := terminal.Columns(c.Out); !shown {
		return nil
	}
	return c.confirm("This prints plaintext on the terminal. Continue?")
}
