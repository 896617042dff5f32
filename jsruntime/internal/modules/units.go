package modules

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/compile"
)

// Units has the units of a process. It keeps them for the life of the process,
// because they belong to the operator and are the same for every run. The zero
// value is ready to use.
type Units struct {
	units sync.Map // of *Unit by name
	mu    sync.Mutex
	found map[string]string // units by the place and name of the request
}

// Unit is a unit, compiled when first needed.
type Unit struct {
	mu      sync.Mutex
	text    string            // until it is compiled
	Names   map[string]string // units by the names that it requires
	Program *compile.Program
	Patches []string
	err     error
}

// maxFound limits how many names are remembered.
const maxFound = 1000

// Add adds a unit in transit form, unless it already exists.
func (c *Units) Add(name, text string, names []byte) {
	u := c.entry(name)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.Program == nil && u.err == nil {
		u.text = text
		u.err = json.Unmarshal(names, &u.Names)
	}
}

func (c *Units) entry(name string) *Unit {
	u, ok := c.units.Load(name)
	if !ok {
		u, _ = c.units.LoadOrStore(name, &Unit{})
	}
	return u.(*Unit)
}

// Get returns a unit, compiled at most once. If the unit does not exist, fetch
// must add it.
func (c *Units) Get(name string, fetch func() error) (*Unit, error) {
	u := c.entry(name)
	ready, err := u.ready(name)
	if ready {
		return u, err
	}
	if err := fetch(); err != nil {
		return nil, err
	}
	if ready, err = u.ready(name); !ready {
		return nil, ErrNotFound
	}
	return u, err
}

// ready compiles the unit if there is text to compile, and reports whether the
// unit is ready.
func (u *Unit) ready(name string) (bool, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.Program != nil || u.err != nil {
		return true, u.err
	}
	if u.text == "" {
		return false, nil
	}
	u.err = u.compile(name, u.text)
	u.text = ""
	return true, u.err
}

func (u *Unit) compile(name, source string) error {
	tree, err := compile.Parse("/app/"+name+".bundle", compile.WrapHead+source+compile.WrapTail)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", compile.SyntaxMessage(err))
	}
	program, err := compile.Assemble(tree)
	if err != nil {
		return fmt.Errorf("the package cannot be compiled: %s", compile.SyntaxMessage(err))
	}
	u.Program, u.Patches = program, compile.NeededPatches(tree)
	return nil
}

// Remembered returns the unit that a name referred to before.
func (c *Units) Remembered(key string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name, ok := c.found[key]
	return name, ok
}

// Remember stores the unit that a name refers to.
func (c *Units) Remember(key, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.found == nil || len(c.found) >= maxFound {
		c.found = map[string]string{}
	}
	c.found[key] = name
}
