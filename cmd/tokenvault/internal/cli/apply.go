package cli

import (
	"flag"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/manifest"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// planned is the effect of applying a manifest.
type planned struct {
	Name    string    `json:"name"`
	Action  string    `json:"action"` // create, update or unchanged
	Changed []string  `json:"changed,omitempty"`
	ID      uuid.UUID `json:"id,omitzero"`
	diff    []string
	Key     string                    `json:"key,omitempty"` // of an application that was created
	write   func() (uuid.UUID, error) // nil if nothing changes
}

// Values of planned.Action.
const (
	actionCreate    = "create"
	actionUpdate    = "update"
	actionUnchanged = "unchanged"
)

const applyAbout = `Reads a YAML or JSON file, or all such files of a folder, shows the differences
	from the tenant, asks, and then applies them. An item with the same name is
	changed, a missing item is created, and nothing is deleted. Applying the same
	files again changes nothing. --dry-run stops after the differences.
	`

const codeAbout = `
	A value of the configuration is a string, or {env: VARIABLE} for a value that
	must not be in a file. Values are never shown. application is the name or id of
	an application of the tenant.
	`

func applyCommand(name, kind, about, example string, plan func(*call, vault.API, *manifest.Manifest) (*planned, error)) *command {
	return &command{
		name: name + " apply", reach: bothWays, asks: true, summary: "create or change items from files",
		about: applyAbout + about, example: example,
		setup: func(f *flag.FlagSet) action {
			path := f.String("f", "", "`file` or folder")
			dry := f.Bool("dry-run", false, "only show what would change")
			return func(c *call) error { return apply(c, kind, *path, *dry, plan) }
		},
	}
}

func apply(c *call, kind, path string, dry bool, plan func(*call, vault.API, *manifest.Manifest) (*planned, error)) error {
	if path == "" {
		return shell.Usagef("-f with a file or a folder is required")
	}
	manifests, err := manifest.Read(path, kind)
	if err != nil {
		return err
	}
	o, err := c.open()
	if err != nil {
		return err
	}
	var plans []*planned
	changes := 0
	for _, m := range manifests {
		p, err := plan(c, o.api, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.File, err)
		}
		plans = append(plans, p)
		if p.Action != actionUnchanged {
			changes++
		}
		c.showPlan(kind, p)
	}
	if !dry && changes > 0 {
		if err := c.confirm("Apply " + shell.Counted(changes, "change") + "?"); err != nil {
			return err
		}
		for _, p := range plans {
			if p.write == nil {
				continue
			}
			if p.ID, err = p.write(); err != nil {
				return fmt.Errorf("%s %s: %w", kind, shell.Printable(p.Name), err)
			}
		}
	}
	return c.reportPlans(plans, changes, dry)
}

// showPlan shows the changes to an item. With --json it writes to standard
// error, so that standard output has only JSON.
func (c *call) showPlan(kind string, p *planned) {
	w := c.Out
	if c.json {
		w = c.Err
	}
	colours := terminal.NewPalette(w, c.getenv)
	if p.Action != actionUnchanged || !c.json {
		fmt.Fprintln(w, colours.Bold(p.Action+" "+kind+" "+shell.Printable(p.Name)))
	}
	for _, line := range p.diff {
		line = shell.Printable(line)
		switch {
		case strings.HasPrefix(line, "+"):
			line = colours.Good(line)
		case strings.HasPrefix(line, "-"):
			line = colours.Bad(line)
		}
		fmt.Fprintln(w, "  "+line)
	}
}

func (c *call) reportPlans(plans []*planned, changes int, dry bool) error {
	if c.json {
		for _, p := range plans {
			if err := shell.WriteJSON(c.Out, p); err != nil {
				return err
			}
		}
		return nil
	}
	format := "Applied %s."
	if dry {
		format = "Applying would make %s."
	}
	_, err := fmt.Fprintf(c.Out, format+"\n", shell.Counted(changes, "change"))
	return err
}

// applicationID finds the application in a manifest. It returns zero if the
// manifest names none.
func applicationID(c *call, api vault.API, which string) (uuid.UUID, error) {
	if which == "" {
		return uuid.UUID{}, nil
	}
	app, err := apps.find(c, api, which)
	if err != nil {
		return uuid.UUID{}, fmt.Errorf("application: %w", err)
	}
	return app.ID, nil
}
