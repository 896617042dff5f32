package cli

import (
	"flag"
	"fmt"
	"slices"
	"strings"
)

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
				return usagef("there is completion for bash, zsh and fish")
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
