package cli

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// help prints the manual of a command, the commands of a group, or the
// overview.
func (p *program) help(args []string) error {
	if len(args) == 0 {
		p.overview(p.Out)
		return nil
	}
	if first := strings.Join(args, " "); len(inGroup(first)) > 0 {
		p.list(p.Out, first+" ")
		return nil
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
      over HTTP    --url https://..., with an API key in TOKENVAULT_API_KEY; or
                   with an application's id in TOKENVAULT_APPLICATION, and the
                   file of a workload's JWT in TOKENVAULT_IDENTITY_FILE

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
		for i, paragraph := range shell.Paragraphs(cmd.about) {
			if i > 0 {
				fmt.Fprintln(w)
			}
			for _, line := range shell.Wrapped(paragraph, 76) {
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
	for _, line := range shell.Wrapped(usage, 72) {
		fmt.Fprintf(w, "        %s\n", line)
	}
}

// completeWord is the hidden command that shells call for completions. The
// words on the line follow it. The last word is the one to complete.
const completeWord = "__complete"

// completionScripts are the scripts for the shells. Each calls the program
// itself, so that completions always match its commands. If the program
// prints nothing, the shell completes file names.
var completionScripts = map[string]string{
	"bash": `_tokenvault() {
    local words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _tokenvault tokenvault
`,
	"zsh": `#compdef tokenvault
_tokenvault() {
    local -a found
    found=(${(f)"$("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)"})
    if (( ${#found} )); then compadd -- $found; else _files; fi
}
compdef _tokenvault tokenvault
if [ "$funcstack[1]" = "_tokenvault" ]; then _tokenvault; fi
`,
	"fish": `function __tokenvault_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c tokenvault -a '(__tokenvault_complete)'
`,
}

func completionCommand() *command {
	return &command{
		name: "completion", args: "bash|zsh|fish", min: 1, max: 1,
		summary: "print a script that completes commands and flags in a shell",
		about:   "The script asks the program for completions, so you need not create it again after an upgrade.",
		example: "source <(tokenvault completion bash)\ntokenvault completion zsh > ~/.zfunc/_tokenvault\ntokenvault completion fish > ~/.config/fish/completions/tokenvault.fish",
		act: func(c *call) error {
			script, ok := completionScripts[c.args[0]]
			if !ok {
				return shell.Usagef("there is completion for bash, zsh and fish")
			}
			return c.printText([]byte(script), nil)
		},
	}
}

// complete prints the possible last words, one on each line. It prints
// nothing if the word is a file name or free text.
func (p *program) complete(line []string) error {
	if len(line) == 0 {
		line = []string{""}
	}
	last, before := line[len(line)-1], line[:len(line)-1]
	for _, candidate := range p.candidates(before, last) {
		if strings.HasPrefix(candidate, last) {
			fmt.Fprintln(p.Out, candidate)
		}
	}
	return nil
}

// candidates returns the words that can follow the words of a line.
func (p *program) candidates(before []string, last string) []string {
	cmd, rest, err := find(append(slices.Clone(before), ""))
	if len(before) == 0 || err != nil {
		return nextWords(before)
	}
	if !strings.HasPrefix(last, "-") {
		if len(rest) == 1 && cmd.name == "completion" {
			return []string{"bash", "fish", "zsh"}
		}
		return nil
	}
	var flags []string
	(&call{program: p, cmd: cmd}).flagSet().VisitAll(func(f *flag.Flag) { flags = append(flags, "--"+f.Name) })
	return append(flags, "--help")
}

// nextWords returns the next words of the commands that start with the given
// words.
func nextWords(before []string) []string {
	var words []string
	for _, cmd := range commands() {
		name := strings.Fields(cmd.name)
		if len(name) > len(before) && slices.Equal(name[:len(before)], before) && !slices.Contains(words, name[len(before)]) {
			words = append(words, name[len(before)])
		}
	}
	if len(before) == 0 {
		words = append(words, "help")
	}
	slices.Sort(words)
	return words
}
