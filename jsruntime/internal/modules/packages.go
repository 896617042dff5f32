// Package modules knows what code may require: the modules of Node in the
// prelude, and the packages in a folder of the operator. The embedding process
// finds and builds packages with a [Store]. The process that runs code keeps
// them in [Units].
package modules

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
)

// ErrModules means that the folder of [Options.Modules] cannot be used.
var ErrModules = errors.New("jsruntime: the folder of packages cannot be used")

// Questions about packages.
const (
	AskFind  = "find"  // the units that names refer to, as seen from a unit
	AskUnit  = "unit"  // the text of a unit
	AskNames = "names" // the names of the packages
)

// Store has the operator's packages, for the embedding process: their names,
// the units that were requested, and how often they are used.
type Store struct {
	Err    error // why there are no packages
	folder *folder
	names  []string

	building sync.Mutex // one set of units at a time, because it uses all processors

	mu    sync.Mutex
	units map[string]*built // requested units
	uses  map[string]int    // number of runs in which the tenant's code required a unit
}

// Open reads the names of the packages in a folder. An empty dir means no
// packages.
func Open(dir string) *Store {
	p := &Store{units: map[string]*built{}, uses: map[string]int{}}
	if dir == "" {
		return p
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		p.Err = fmt.Errorf("%w: %w", ErrModules, err)
		return p
	}
	p.folder = &folder{root: root}
	if p.names, err = p.folder.list(); err != nil {
		p.Err = errors.Join(fmt.Errorf("%w: %w", ErrModules, err), root.Close())
	}
	return p
}

// Close closes the folder.
func (p *Store) Close() error {
	if p.folder == nil || p.Err != nil {
		return nil //nolint:nilerr // the folder was closed when it could not be read
	}
	return p.folder.root.Close()
}

// list returns the sorted names of the packages: the dependencies in the
// folder's package.json if it has any, otherwise everything in node_modules.
func (f *folder) list() ([]string, error) {
	entries, err := fs.ReadDir(f.root.FS(), "node_modules")
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		name := entry.Name()
		switch {
		case strings.HasPrefix(name, "."):
		case strings.HasPrefix(name, "@"):
			scoped, err := fs.ReadDir(f.root.FS(), "node_modules/"+name)
			if err != nil {
				return nil, err
			}
			for _, inner := range scoped {
				all = append(all, name+"/"+inner.Name())
			}
		default:
			all = append(all, name)
		}
	}
	all = slices.DeleteFunc(all, func(name string) bool {
		_, err := f.resolve(".", name, requireConditions)
		return err != nil && f.manifest("node_modules/"+name) == nil
	})
	if declared := f.declared(all); len(declared) > 0 {
		all = declared
	}
	slices.Sort(all)
	return all, nil
}

// declared returns the packages that the package.json of the folder names.
func (f *folder) declared(all []string) []string {
	m := f.manifest(".")
	if m == nil {
		return nil
	}
	var out []string
	for _, p := range pairsOf(m.Dependencies) {
		if slices.Contains(all, p.key) {
			out = append(out, p.key)
		}
	}
	return out
}

var errQuestion = errors.New("unknown question")

// Answer responds to a question about packages. known reports which units the
// asking process has.
func (p *Store) Answer(question string, args []string, known func(unit string) bool) ([]string, error) {
	switch {
	case question == AskNames:
		return p.names, nil
	case p.folder == nil || len(args) == 0:
		return nil, ErrNotFound
	case question == AskFind:
		out := make([]string, 0, len(args))
		for _, name := range args[1:] {
			out = append(out, p.find(args[0], name))
		}
		return out, nil
	case question == AskUnit:
		return p.closure(args[0], maxAnswer, known)
	}
	return nil, errQuestion
}

// find returns the unit that a name refers to in the code of the tenant, or in
// a unit that computed the name.
func (p *Store) find(from, name string) string {
	dir := "."
	if from != "" {
		dir = path.Dir(from)
	} else if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return ""
	}
	unit, err := p.folder.resolve(dir, name, requireConditions)
	if err != nil {
		return ""
	}
	return unit
}

// get returns units, and builds each at its first request. A worker
// could request anything, but only files in packages are units.
func (p *Store) get(names ...string) []*built {
	p.building.Lock()
	defer p.building.Unlock()
	out := make([]*built, len(names))
	var missing []string
	var at []int
	p.mu.Lock()
	for i, name := range names {
		if out[i] = p.units[name]; out[i] != nil {
			continue
		}
		if _, err := p.folder.regular(name); err != nil || p.folder.packageOf(name) == "." {
			out[i] = &built{err: ErrNotFound}
			continue
		}
		missing, at = append(missing, name), append(at, i)
	}
	p.mu.Unlock()
	if len(missing) == 0 {
		return out
	}
	made := p.folder.buildAll(missing)
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, b := range made {
		p.units[missing[i]], out[at[i]] = b, b
	}
	return out
}

// maxAnswer is about how many bytes of units one response contains. Further
// units are requested when needed.
const maxAnswer = 512 << 10

// UnitParts is the number of strings that represent a unit in transit.
const UnitParts = 3

// closure returns a unit and, as far as there is room, the units that it needs
// in turn. Each is represented by its name, its text, and the names in it as
// JSON. It omits units that cannot be built; a run that requests one by name
// gets the error.
func (p *Store) closure(name string, room int, known func(unit string) bool) ([]string, error) {
	first := p.get(name)[0]
	if first.err != nil {
		return nil, first.err
	}
	var out []string
	add := func(name string, b *built) {
		names, _ := json.Marshal(b.names) // strings can always be encoded
		out = append(out, name, b.text, string(names))
		room -= len(b.text)
	}
	add(name, first)
	seen := map[string]bool{name: true}
	for wave := first.needs(); len(wave) > 0 && room > 0; {
		wave = slices.DeleteFunc(wave, func(unit string) bool {
			again := seen[unit] || known(unit)
			seen[unit] = true
			return again
		})
		var next []string
		for i, b := range p.get(wave...) {
			if b.err == nil && room > 0 {
				add(wave[i], b)
				next = append(next, b.needs()...)
			}
		}
		wave = next
	}
	return out, nil
}

// needs returns the units that a unit requires, sorted.
func (b *built) needs() []string { return slices.Sorted(maps.Values(b.names)) }

// Used counts the units that the code of a run has required, one name per line.
func (p *Store) Used(names []byte) {
	if len(names) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range strings.SplitSeq(string(names), "\n") {
		if p.units[name] != nil {
			p.uses[name]++
		}
	}
}

// maxFavourites is how many bytes of units a spare worker compiles ahead of
// time, which takes a moment.
const maxFavourites = 1 << 20

// Favourites returns the most used units and the units that they need, in
// transit form, as many as a spare worker should load.
func (p *Store) Favourites() []string {
	p.mu.Lock()
	names := slices.Collect(maps.Keys(p.uses))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(p.uses[b]-p.uses[a], cmp.Compare(a, b)) })
	p.mu.Unlock()
	var out []string
	sent := map[string]bool{}
	room := maxFavourites
	for _, name := range names {
		units, _ := p.closure(name, room, func(unit string) bool { return sent[unit] })
		for unit := range slices.Chunk(units, UnitParts) {
			if sent[unit[0]] || room <= 0 {
				continue
			}
			room -= len(unit[1])
			sent[unit[0]] = true
			out = append(out, unit...)
		}
	}
	return out
}
