package jsruntime

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync"
)

// ErrModules means that the folder of [Options.Modules] cannot be used.
var ErrModules = errors.New("jsruntime: the folder of packages cannot be used")

// packages is the operator's packages, kept by the embedding process: which there
// are, their bundles, and how often they are used.
type packages struct {
	err    error // why there are none
	folder *folder
	names  []string

	mu    sync.Mutex
	units map[string]*bundled
}

// bundled is a unit, bundled when it is first asked for.
type bundled struct {
	once sync.Once
	text string
	err  error
	uses int // runs that have required it
}

// unitText is a unit on its way to a worker.
type unitText struct{ name, text string }

// openPackages reads which packages a folder has. Without a folder there are
// none.
func openPackages(dir string) *packages {
	p := &packages{units: map[string]*bundled{}}
	if dir == "" {
		return p
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		p.err = fmt.Errorf("%w: %w", ErrModules, err)
		return p
	}
	p.folder = &folder{root: root}
	if p.names, err = p.folder.list(); err != nil {
		p.err = errors.Join(fmt.Errorf("%w: %w", ErrModules, err), root.Close())
	}
	return p
}

func (p *packages) close() error {
	if p.folder == nil || p.err != nil {
		return nil
	}
	return p.folder.root.Close()
}

// list returns the names of the packages, sorted: the dependencies of the
// folder's package.json, if it has some, else everything in node_modules.
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

// declared returns those packages that the package.json of the folder names.
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

// answer answers a question about packages.
func (p *packages) answer(question string, args []string) ([]string, error) {
	switch {
	case question == askNames:
		return p.names, nil
	case p.folder == nil || len(args) == 0:
		return nil, errNotFound
	case question == askFind:
		out := make([]string, 0, len(args))
		for _, name := range args[1:] {
			out = append(out, p.find(args[0], name))
		}
		return out, nil
	case question == askUnit:
		text, err := p.text(args[0])
		return []string{text}, err
	}
	return nil, errFrame
}

// find returns the unit that a name stands for in the code of the tenant, or
// within a unit, whose own package may be asked for any file.
func (p *packages) find(from, name string) string {
	dir := "."
	if from != "" {
		dir = p.folder.packageOf(from)
	} else if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") {
		return ""
	}
	unit, err := p.folder.resolve(dir, name, requireConditions)
	if err != nil {
		return ""
	}
	return unit
}

// text returns the bundle of a unit. Only what find or another bundle has named
// is one, and a worker could ask for anything: so the path is resolved again.
func (p *packages) text(unit string) (string, error) {
	if _, err := p.folder.regular(unit); err != nil || !strings.Contains("/"+unit, "/node_modules/") && p.folder.packageOf(unit) == "." {
		return "", errNotFound
	}
	p.mu.Lock()
	b := p.units[unit]
	if b == nil {
		b = &bundled{}
		p.units[unit] = b
	}
	p.mu.Unlock()
	b.once.Do(func() { b.text, b.err = p.folder.bundle(unit) })
	return b.text, b.err
}

// used counts the units that a run has required, one name on each line.
func (p *packages) used(names []byte) {
	if len(names) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name := range strings.Lines(string(names)) {
		if b := p.units[strings.TrimSuffix(name, "\n")]; b != nil {
			b.uses++
		}
	}
}

// What a spare worker compiles before it is needed: a moment's work.
const (
	maxFavourites     = 64
	maxFavouriteBytes = 1 << 20
)

// favourites returns the units that are used most, as many as a spare worker
// should load.
func (p *packages) favourites() []unitText {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []string
	for name, b := range p.units {
		if b.uses > 0 && b.err == nil {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(p.units[b].uses, p.units[a].uses), cmp.Compare(a, b))
	})
	var out []unitText
	room := maxFavouriteBytes
	for _, name := range names[:min(len(names), maxFavourites)] {
		if text := p.units[name].text; len(text) <= room {
			room -= len(text)
			out = append(out, unitText{name, text})
		}
	}
	return out
}
