package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// help prints the manual of a command, the commands of a group, or the
// overview.
func (p *program) help(args []string) error {
	if len(args) == 0 {
		p.overview(p.Out)
		return nil
	}
	if len(args) == 1 {
		if group := inGroup(args[0]); len(group) > 0 {
			p.list(p.Out, args[0]+" ")
			return nil
		}
	}
	cmd, rest, err := find(args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return unknownCommand(args)
	}
	p.manual(p.Out, cmd)
	return nil
}

const overviewText = `    The operator's tool for a vault. It accesses a vault in one of two ways:

      in process   --db FILE or postgres://..., with the master key in
                   --key-file or TOKENVAULT_MASTER_KEY
      over HTTP    --url https://..., with an API key in TOKENVAULT_API_KEY

    Every flag can also be set by an environment variable: --key-file by
    TOKENVAULT_KEY_FILE. --tenant names the tenant, by id or name. --json prints
    one JSON object per line.
`

const exitText = `    0 success, 1 failure, 2 usage error, 3 not found, 4 forbidden, 130 signal
`

// overview lists the commands.
func (p *program) overview(w io.Writer) {
	c := terminal.NewPalette(w, p.getenv)
	fmt.Fprintf(w, "%s\n    tokenvault COMMAND [ARGUMENTS] [FLAGS]\n\n%s\n%s\n", c.Bold("SYNOPSIS"), c.Bold("DESCRIPTION"), overviewText)
	fmt.Fprintln(w, c.Bold("COMMANDS"))
	p.list(w, "")
	fmt.Fprintf(w, "\n    tokenvault help COMMAND describes a command.\n\n%s\n%s", c.Bold("EXIT STATUS"), exitText)
}

// list prints a line for each command whose name starts with a prefix.
func (p *program) list(w io.Writer, prefix string) {
	width := 0
	for _, cmd := range commands() {
		width = max(width, len(cmd.name))
	}
	c := terminal.NewPalette(w, p.getenv)
	for _, cmd := range commands() {
		if strings.HasPrefix(cmd.name, prefix) {
			fmt.Fprintf(w, "    %s  %s\n", c.Bold(fmt.Sprintf("%-*s", width, cmd.name)), cmd.summary)
		}
	}
}

// manual prints the manual page of a command.
func (p *program) manual(w io.Writer, cmd *command) {
	c := terminal.NewPalette(w, p.getenv)
	section := func(title string) { fmt.Fprintf(w, "\n%s\n", c.Bold(title)) }
	fmt.Fprintf(w, "%s\n    tokenvault %s - %s\n", c.Bold("NAME"), cmd.name, cmd.summary)
	section("SYNOPSIS")
	fmt.Fprintf(w, "    %s\n", strings.Join(strings.Fields("tokenvault "+cmd.name+" "+cmd.args+" [FLAGS]"), " "))
	if cmd.about != "" {
		section("DESCRIPTION")
		for i, paragraph := range paragraphs(cmd.about) {
			if i > 0 {
				fmt.Fprintln(w)
			}
			for _, line := range wrapped(paragraph, 76) {
				fmt.Fprintf(w, "    %s\n", line)
			}
		}
	}
	own, shared := (&call{program: p, cmd: cmd}).flags()
	for _, group := range []struct {
		title string
		flags []*flag.Flag
	}{{"FLAGS", own}, {"FLAGS OF ALL COMMANDS", shared}} {
		if len(group.flags) > 0 {
			section(group.title)
		}
		for _, fl := range group.flags {
			printFlag(w, c, fl)
		}
	}
	section("EXAMPLE")
	for line := range strings.Lines(strings.TrimSpace(cmd.example)) {
		fmt.Fprintf(w, "    %s\n", strings.TrimSpace(line))
	}
	section("EXIT STATUS")
	fmt.Fprint(w, exitText)
}

// flags returns the command's own flags and its shared flags.
func (c *call) flags() (own, shared []*flag.Flag) {
	only := flag.NewFlagSet("", flag.ContinueOnError)
	c.cmd.bind(only)
	c.flagSet().VisitAll(func(fl *flag.Flag) {
		if only.Lookup(fl.Name) != nil {
			own = append(own, fl)
		} else {
			shared = append(shared, fl)
		}
	})
	return own, shared
}

// printFlag prints a flag with its environment variable and usage, in lines
// of at most 80 columns.
func printFlag(w io.Writer, c terminal.Palette, fl *flag.Flag) {
	value, usage := flag.UnquoteUsage(fl)
	head := "--" + fl.Name
	if len(fl.Name) == 1 {
		head = "-" + fl.Name
	}
	if value != "" {
		head += " " + strings.ToUpper(value)
	}
	if fl.DefValue != "" && fl.DefValue != "false" && fl.DefValue != "0" && fl.DefValue != "0s" {
		usage += " (default " + fl.DefValue + ")"
	}
	fmt.Fprintf(w, "    %s  %s\n", c.Bold(head), c.Dim(variable(fl.Name)))
	for _, line := range wrapped(usage, 72) {
		fmt.Fprintf(w, "        %s\n", line)
	}
}

// paragraphs splits a text at empty lines.
func paragraphs(text string) []string {
	var all []string
	for line := range strings.Lines(text) {
		switch line = strings.TrimSpace(line); {
		case line == "":
			all = append(all, "")
		case len(all) == 0:
			all = append(all, line)
		default:
			all[len(all)-1] += " " + line
		}
	}
	return slices.DeleteFunc(all, func(p string) bool { return p == "" })
}

// wrapped breaks a text into lines.
func wrapped(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
