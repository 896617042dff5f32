package cli

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

func reactorCommands() []*command {
	return []*command{
		{
			name: "reactor list", reach: bothWays, summary: "list reactors, newest first",
			example: "tokenvault reactor list --tenant Acme",
			act:     inTenant(reactors.list),
		},
		{
			name: "reactor get", args: "ID|NAME", min: 1, max: 1, reach: bothWays, summary: "show a reactor and its code",
			about:   "Only --json shows the values of the configuration.",
			example: "tokenvault reactor get Charge --tenant Acme",
			act:     inTenant(reactors.show),
		},
		applyCommand(manifest.Reactor, manifest.Reactor, codeAbout+`
			A reactor has name, code or code_file, configuration and application. Without
			code and code_file the code is in the file beside it that has the same name and
			ends in .js, .mjs, .cjs or .ts; code without such a file describes a reactor too.`,
			"tokenvault reactor apply -f reactors/ --tenant Acme --dry-run\ntokenvault reactor apply -f reactors/charge.yaml --tenant Acme --yes",
			planReactor),
		{
			name: "reactor run", args: "ID|NAME", min: 1, max: 1, reach: bothWays, asks: true, summary: "run a reactor and print its result",
			about: `--args is a JSON object, which may have expressions, or - for standard input.
				With --callback-url the run is asynchronous, and the id of the job is printed.
				The result of the code may hold plaintext, so it asks before it prints to a
				terminal.`,
			example: `tokenvault reactor run Charge --args '{"card": "{{ tok-1 }}", "amount": 5}' --tenant Acme --yes`,
			setup: func(f *flag.FlagSet) action {
				args := f.String("args", "", "arguments as `JSON`, or - for standard input")
				callback := f.String("callback-url", "", "`URL` to which the result of an asynchronous run is sent")
				timeout := f.Duration("timeout", 0, "time `limit` of an asynchronous run, from 10s to 210s")
				return func(c *call) error {
					return runReactor(c, *args, vault.ReactParams{CallbackURL: *callback, Timeout: *timeout})
				}
			},
		},
		{
			name: "reactor delete", args: "ID|NAME", min: 1, max: 1, reach: bothWays, asks: true, summary: "delete a reactor",
			example: "tokenvault reactor delete Charge --tenant Acme --yes",
			act:     inTenant(reactors.remove),
		},
	}
}

var reactors = kind[vault.Reactor, vault.ReactorParams]{
	name: manifest.Reactor, columns: reactorColumns,
	of: func(r *vault.Reactor) (uuid.UUID, string) { return r.ID, r.Name },
	all: func(ctx context.Context, api vault.API, name string) iter.Seq2[*vault.Reactor, error] {
		return api.AllReactors(ctx, vault.ListParams{Name: name})
	},
	get: vault.API.GetReactor, apply: vault.API.ApplyReactor, delete: vault.API.DeleteReactor,
}

var reactorColumns = []column[*vault.Reactor]{
	{"ID", func(r *vault.Reactor) string { return r.ID.String() }},
	{"NAME", func(r *vault.Reactor) string { return nameText(r.Name, r.Unreadable) }},
	{"APPLICATION", func(r *vault.Reactor) string { return idText(r.ApplicationID) }},
	{"CREATED", func(r *vault.Reactor) string { return shell.TimeText(r.CreatedAt) }},
	{"MODIFIED", func(r *vault.Reactor) string { return shell.TimeText(r.ModifiedAt) }},
	{"CONFIGURATION", func(r *vault.Reactor) string { return namesText(r.Configuration) }},
	{"CODE", func(r *vault.Reactor) string { return codeText(r.Code) }},
}

// planReactor compares a manifest with the existing reactor of the same name.
func planReactor(c *call, api vault.API, m *manifest.Manifest) (*planned, error) {
	if m.DescribesApplication() {
		return nil, errNoApplication
	}
	if m.DestinationURL != "" || m.RequireAuth != nil || m.RequestTransform != nil || m.ResponseTransform != nil {
		return nil, fmt.Errorf("a reactor has no destination_url, require_auth or transforms; is it a proxy?")
	}
	if strings.TrimSpace(m.Code) == "" {
		return nil, fmt.Errorf("a reactor needs code: give code or code_file, or put the code in %s.js beside it", manifest.Stem(m.File))
	}
	want := vault.ReactorParams{Name: m.Name, Code: m.Code}
	var err error
	if want.Configuration, err = m.Configuration(c.getenv); err != nil {
		return nil, err
	}
	if want.ApplicationID, err = applicationID(c, api, m.Application); err != nil {
		return nil, err
	}
	return reactors.plan(c, api, m, want, func(d *manifest.Changes, now *vault.Reactor) {
		d.Text("application", idText(now.ApplicationID), idText(want.ApplicationID))
		d.Configuration(now.Configuration, want.Configuration)
		d.Code("code", now.Code, want.Code)
	})
}

func runReactor(c *call, args string, p vault.ReactParams) error {
	if args != "" {
		document, err := c.document(args)
		if err != nil {
			return err
		}
		p.Args = document
	}
	if p.CallbackURL == "" {
		if err := c.confirmClear(); err != nil {
			return err
		}
	}
	o, r, err := c.runnableReactor()
	if err != nil {
		return err
	}
	if p.CallbackURL != "" {
		job, err := o.api.ReactAsync(c.ctx, r, p)
		if err != nil {
			return err
		}
		return c.say(nil, map[string]any{"id": job.ID}, "%s", job.ID)
	}
	result, err := o.api.React(c.ctx, r, p)
	if err != nil {
		return err
	}
	return shell.WriteJSON(c.Out, result)
}

// runnableReactor returns the id of the reactor to run. It does not look up
// an id, because a key that may run a reactor is not always allowed to read
// it.
func (c *call) runnableReactor() (*opened, uuid.UUID, error) {
	o, err := c.open()
	if err != nil {
		return nil, uuid.UUID{}, err
	}
	if id, err := uuid.Parse(c.args[0]); err == nil {
		return o, id, nil
	}
	r, err := reactors.find(c, o.api, c.args[0])
	if err != nil {
		return nil, uuid.UUID{}, err
	}
	return o, r.ID, nil
}
