package cli

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// Kinds of manifests.
const (
	reactorKind = "reactor"
	proxyKind   = "proxy"
)

// planned is the effect of applying a manifest.
type planned struct {
	Name    string    `json:"name"`
	Action  string    `json:"action"` // create, update or unchanged
	Changed []string  `json:"changed,omitempty"`
	ID      uuid.UUID `json:"id,omitzero"`
	diff    []string
	write   func() (uuid.UUID, error)
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

	A value of the configuration is a string, or {env: VARIABLE} for a value that
	must not be in a file. Values are never shown. application is the name or id of
	an application of the tenant.
	`

func applyCommand(kind, about, example string, plan func(*call, vault.API, *manifest) (*planned, error)) *command {
	return &command{
		name: kind + " apply", reach: bothWays, asks: true, summary: "create or change items from files",
		about: applyAbout + about, example: example,
		setup: func(f *flag.FlagSet) action {
			path := f.String("f", "", "`file` or folder")
			dry := f.Bool("dry-run", false, "only show what would change")
			return func(c *call) error { return apply(c, kind, *path, *dry, plan) }
		},
	}
}

func apply(c *call, kind, path string, dry bool, plan func(*call, vault.API, *manifest) (*planned, error)) error {
	if path == "" {
		return usagef("-f with a file or a folder is required")
	}
	manifests, err := readManifests(path, kind)
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
			return fmt.Errorf("%s: %w", m.file, err)
		}
		plans = append(plans, p)
		if p.Action != actionUnchanged {
			changes++
		}
		c.showPlan(kind, p)
	}
	if !dry && changes > 0 {
		if err := c.confirm("Apply " + counted(changes, "change") + "?"); err != nil {
			return err
		}
		for _, p := range plans {
			if err := p.carryOut(); err != nil {
				return fmt.Errorf("%s %s: %w", kind, printable(p.Name), err)
			}
		}
	}
	return c.reportPlans(plans, changes, dry)
}

// carryOut makes the change, if there is one.
func (p *planned) carryOut() (err error) {
	if p.write != nil {
		p.ID, err = p.write()
	}
	return err
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
		fmt.Fprintln(w, colours.Bold(p.Action+" "+kind+" "+printable(p.Name)))
	}
	for _, line := range p.diff {
		line = printable(line)
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
			if err := writeJSON(c.Out, p); err != nil {
				return err
			}
		}
		return nil
	}
	format := "Applied %s."
	if dry {
		format = "Applying would make %s."
	}
	_, err := fmt.Fprintf(c.Out, format+"\n", counted(changes, "change"))
	return err
}

// changes collects the differences between an existing item and its manifest.
type changes struct {
	names []string
	diff  []string
}

// text compares a text of one line.
func (d *changes) text(name, before, after string) {
	if before == after {
		return
	}
	d.names = append(d.names, name)
	if before != "" {
		d.diff = append(d.diff, "-"+name+": "+before)
	}
	if after != "" {
		d.diff = append(d.diff, "+"+name+": "+after)
	}
}

func (d *changes) code(name, before, after string) {
	lines := diffLines(before, after)
	if before == after {
		return
	}
	d.names = append(d.names, name)
	d.diff = append(d.diff, name+":")
	d.diff = append(d.diff, lines...)
}

// configuration compares names and values. The diff shows only names.
func (d *changes) configuration(before, after map[string]string) {
	all := maps.Clone(after)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, before)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		old, was := before[name]
		now, is := after[name]
		if was == is && old == now {
			continue
		}
		label := "configuration." + name
		d.names = append(d.names, label)
		switch {
		case !was:
			d.diff = append(d.diff, "+"+label)
		case !is:
			d.diff = append(d.diff, "-"+label)
		default:
			d.diff = append(d.diff, "-"+label+": (current value)", "+"+label+": (new value)")
		}
	}
}

// plan returns the plan for the changes to an item. If id is zero, the item
// does not exist yet.
func (d *changes) plan(name string, id uuid.UUID, write func() (uuid.UUID, error)) *planned {
	p := &planned{Name: name, ID: id, Changed: d.names, diff: d.diff, write: write, Action: actionUpdate}
	switch {
	case id == uuid.UUID{}:
		p.Action, p.Changed = actionCreate, nil
	case len(d.names) == 0:
		p.Action, p.write = actionUnchanged, nil
	}
	return p
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
