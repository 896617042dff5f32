package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/serve"
)

// command is a row of the table of commands.
type command struct {
	name    string // one to three words
	args    string // positional arguments, as in the synopsis
	summary string // one line, without a full stop
	about   string // paragraphs of the manual
	example string // lines to paste into a shell
	reach   reach
	trees   trees // use of the evidence of the log
	min     int   // number of positional arguments
	max     int
	asks    bool // irreversible, so it requires confirmation
	act     action
	// setup adds the command's own flags and returns its action. It replaces act.
	setup func(f *flag.FlagSet) action
}

// bind adds the command's own flags, and returns its action.
func (cmd *command) bind(f *flag.FlagSet) action {
	if cmd.setup == nil {
		return cmd.act
	}
	return cmd.setup(f)
}

// changes reports whether the command changes data of a tenant. All commands
// do, except those listed here.
func (cmd *command) changes() bool {
	words := strings.Fields(cmd.name)
	noun, verb := words[0], words[len(words)-1]
	if len(words) == 1 {
		return noun != "stats" && noun != "doctor" && noun != "export" && noun != "detokenize"
	}
	return noun != "log" && verb != "get" && verb != "list" && verb != "search"
}

// action runs a command after its flags are parsed.
type action func(c *call) error

// inTenant returns an action on a vault as its tenant.
func inTenant(do func(*call, *opened) error) action {
	return func(c *call) error {
		o, err := c.open()
		if err != nil {
			return err
		}
		return do(c, o)
	}
}

// inVault returns an action on a vault in this process.
func inVault(do func(*call, *vault.Vault) error) action {
	return func(c *call) error {
		o, err := c.openVault()
		if err != nil {
			return err
		}
		return do(c, o.vault)
	}
}

// flagged returns the setup of a command whose flags are in a T.
func flagged[T any](flags func(*T, *flag.FlagSet), act func(*call, *T) error) func(*flag.FlagSet) action {
	return func(f *flag.FlagSet) action {
		p := new(T)
		flags(p, f)
		return func(c *call) error { return act(c, p) }
	}
}

// reach is the set of ways in which a command can access a vault.
type reach uint8

const (
	nowhere   reach = 0         // needs no vault
	inProcess reach = 1 << iota // --db and the master key
	overHTTP                    // --url and an API key
	bothWays  = inProcess | overHTTP
)

// trees is how a command uses the evidence of the log.
type trees uint8

const (
	noTrees    trees = iota
	foundTrees       // if the database has evidence
	madeTrees        // in any case; missing evidence is created
)

// call is one run of a command.
type call struct {
	*program
	ctx     context.Context
	cmd     *command
	args    []string
	anchors []vault.Anchor // of the evidence of the log
	act     action

	target target
	json   bool
	yes    bool
	sets   map[string]origin // origins of the values of flags
	opened *opened
}

// origin is the source of the value of a flag.
type origin uint8

const (
	byDefault origin = iota
	fromLine
	fromEnvironment
)

// given reports whether a flag was set at all. typed reports whether it was
// set on the command line.
func (c *call) given(name string) bool { return c.sets[name] != byDefault }
func (c *call) typed(name string) bool { return c.sets[name] == fromLine }

// commands returns the table of commands.
func commands() []*command {
	return slices.Concat(
		keyCommands(), tenantCommands(), tenantKeyCommands(), appCommands(), appKeyCommands(), sessionCommands(), tokenCommands(), documentCommands(),
		reactorCommands(), proxyCommands(), forwardCommands(), logCommands(), sinkCommands(), evidenceCommands(), auditCommands(),
		databaseCommands(), backupCommands(), moveCommands(), eraseCommands(), processCommands(),
	)
}

// flagSet returns the flags of a command, bound to the call.
func (c *call) flagSet() *flag.FlagSet {
	f := flag.NewFlagSet("tokenvault "+c.cmd.name, flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	c.act = c.cmd.bind(f)
	if c.cmd.reach != nowhere {
		c.target.flags(f, c.cmd.reach)
		f.BoolVar(&c.json, "json", false, "print one JSON object per line")
	}
	if c.cmd.asks {
		f.BoolVar(&c.yes, "yes", false, "do not ask for confirmation")
	}
	return f
}

// parse reads the arguments of a command, and then the environment.
func (p *program) parse(cmd *command, args []string) (*call, error) {
	if slices.ContainsFunc(args, holdsSecretURL) {
		return nil, shell.Usagef("a URL on the command line must not have a password, or a parameter key, token, password, secret or signature, because process lists show it: use the environment variable of the flag, such as %s", variable("db"))
	}
	c := &call{program: p, cmd: cmd, sets: map[string]origin{}}
	f := c.flagSet()
	if err := c.parseArgs(f, args); err != nil {
		return nil, err
	}
	f.Visit(func(set *flag.Flag) { c.sets[set.Name] = fromLine })
	if err := c.readEnvironment(f); err != nil {
		return nil, err
	}
	switch n := len(c.args); {
	case n < cmd.min:
		return nil, shell.Usagef("tokenvault %s needs %s; see tokenvault help %s", cmd.name, cmd.args, cmd.name)
	case n > cmd.max && cmd.max == 0:
		return nil, shell.Usagef("tokenvault %s takes flags only; see tokenvault help %s", cmd.name, cmd.name)
	case n > cmd.max:
		return nil, shell.Usagef("tokenvault %s takes only %s; see tokenvault help %s", cmd.name, cmd.args, cmd.name)
	}
	return c, nil
}

// urlForm matches the URLs of an argument: alone, after NAME= or --flag=, or in a
// list.
var urlForm = regexp.MustCompile(`(?:^|[=, ])([a-zA-Z][a-zA-Z0-9+.-]*://\S+)`)

// holdsSecretURL reports whether an argument has a URL with a secret.
func holdsSecretURL(arg string) bool {
	for _, found := range urlForm.FindAllStringSubmatch(arg, -1) {
		u, err := url.Parse(found[1])
		if err != nil {
			return strings.Contains(found[1], "@") // it may still have a password
		}
		if password, _ := u.User.Password(); password != "" {
			return true
		}
		for name := range u.Query() {
			switch strings.ToLower(name) {
			case "key", "token", "password", "secret", "signature":
				return true
			}
		}
	}
	return false
}

// parseArgs reads flags and positional arguments, which may be mixed.
func (c *call) parseArgs(f *flag.FlagSet, args []string) error {
	for len(args) > 0 {
		err := f.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		if err != nil {
			return shell.Usagef("tokenvault %s: %s; see tokenvault help %s", c.cmd.name, flagProblem(err), c.cmd.name)
		}
		rest := f.Args()
		if len(rest) < len(args) && args[len(args)-len(rest)-1] == "--" {
			c.args = append(c.args, rest...)
			return nil
		}
		if len(rest) == 0 {
			return nil
		}
		c.args, args = append(c.args, rest[0]), rest[1:]
	}
	return nil
}

// flagProblem returns the message of package flag about an invalid flag,
// without the value, which may be sensitive.
func flagProblem(err error) string {
	text := err.Error()
	if _, after, ok := strings.Cut(text, "for flag "); ok {
		name, problem, _ := strings.Cut(after, ": ")
		return "invalid value of -" + name + ": " + problem
	}
	if _, after, ok := strings.Cut(text, "for -"); ok {
		name, problem, _ := strings.Cut(after, ": ")
		return "invalid value of --" + name + ": " + problem
	}
	return strings.ReplaceAll(text, ": -", ": --")
}

// readEnvironment sets flags that were not given from environment variables.
func (c *call) readEnvironment(f *flag.FlagSet) error {
	var err error
	f.VisitAll(func(fl *flag.Flag) {
		value := c.getenv(variable(fl.Name))
		_, held := fl.Value.(*serve.KeyURI) // its variable may also hold a key
		if held || c.typed(fl.Name) || value == "" || err != nil {
			return
		}
		if set := fl.Value.Set(value); set != nil {
			err = shell.Usagef("invalid value of the environment variable %s: %v", variable(fl.Name), set)
		}
		c.sets[fl.Name] = fromEnvironment
	})
	return err
}

// variable returns the environment variable for a flag.
func variable(flagName string) string {
	return "TOKENVAULT_" + strings.ToUpper(strings.ReplaceAll(flagName, "-", "_"))
}

// texts is a flag that may be repeated. Its values may contain commas.
type texts []string

func (t *texts) set(text string) error {
	*t = append(*t, text)
	return nil
}

// pairs is a flag that may be repeated, with values name=value.
type pairs map[string]string

func (p *pairs) set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("want name=value")
	}
	if *p == nil {
		*p = pairs{}
	}
	(*p)[name] = value
	return nil
}
