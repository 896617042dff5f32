// Package manifest reads the files that describe applications, reactors and proxies, and
// compares them with what a tenant has.
package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

// Manifest describes an application, a reactor or a proxy in a file of YAML or JSON.
type Manifest struct {
	Kind        string         `yaml:"kind"` // application, reactor or proxy; the default is the command's kind
	Name        string         `yaml:"name"` // the default is the name of the file
	Application string         `yaml:"application"`
	Settings    map[string]any `yaml:"configuration"` // strings, or {env: VARIABLE}

	// Fields of an application, as in the body of POST /applications.
	Type        string   `yaml:"type"`
	Permissions []string `yaml:"permissions"`
	Rules       []any    `yaml:"rules"`
	Identities  []any    `yaml:"identities"`
	ExpiresAt   string   `yaml:"expires_at"`
	CreateKey   *bool    `yaml:"create_key"`

	// Fields of a reactor.
	Code     string `yaml:"code"`
	CodeFile string `yaml:"code_file"`

	// Fields of a proxy.
	DestinationURL    string `yaml:"destination_url"`
	RequireAuth       *bool  `yaml:"require_auth"`
	RequestTransform  *Code  `yaml:"request_transform"`
	ResponseTransform *Code  `yaml:"response_transform"`

	File string `yaml:"-"` // that the manifest was read from
}

// Code is the code of a transform, or the name of its file.
type Code struct {
	Code     string `yaml:"code"`
	CodeFile string `yaml:"code_file"`
}

// Kinds of manifests.
const (
	Application = "application"
	Reactor     = "reactor"
	Proxy       = "proxy"
)

// Suffixes of manifests and code files.
var (
	manifestSuffixes = []string{".yaml", ".yml", ".json"}
	codeSuffixes     = []string{".js", ".mjs", ".cjs", ".ts"}
)

// Read reads the manifests of a kind from a file, or from all files
// of a folder, sorted by file name.
func Read(path, kind string) ([]*Manifest, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	files := []string{path}
	if info.IsDir() {
		if files, err = manifestFiles(path, kind); err != nil {
			return nil, err
		}
	}
	var all []*Manifest
	names := map[string]string{}
	for _, file := range files {
		m, err := readManifest(file, kind)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if m.Kind != kind {
			continue
		}
		if first := names[m.Name]; first != "" {
			return nil, fmt.Errorf("%s and %s describe the same %s: they have one name", first, file, kind)
		}
		names[m.Name] = file
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s describes no %s: it needs a file that ends in %s", path, kind, strings.Join(manifestSuffixes, ", "))
	}
	return all, nil
}

// manifestFiles returns the manifests in a folder. For reactors, it also
// returns code files without a manifest.
func manifestFiles(folder, kind string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var files []string
	described := map[string]bool{}
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(manifestSuffixes, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(folder, e.Name()))
			described[Stem(e.Name())] = true
		}
	}
	for _, e := range entries {
		base := Stem(e.Name())
		part := strings.TrimSuffix(strings.TrimSuffix(base, ".request"), ".response")
		if kind == Reactor && !e.IsDir() && slices.Contains(codeSuffixes, filepath.Ext(e.Name())) && !described[base] && !described[part] {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

// Stem returns the name of a file without its folder and its ending.
func Stem(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// readManifest reads one file: a manifest, or the code of a reactor without a
// manifest.
func readManifest(file, kind string) (*Manifest, error) {
	m := &Manifest{Kind: kind, Name: Stem(file), File: file}
	if slices.Contains(codeSuffixes, filepath.Ext(file)) {
		m.Kind, m.CodeFile = Reactor, filepath.Base(file)
		return m, m.readCode()
	}
	text, err := shell.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(text, m, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // without the source, which may contain secrets
	}
	return m, m.readCode()
}

// readCode reads the code files that the manifest names, or that have its
// name.
func (m *Manifest) readCode() error {
	if m.Kind == Application {
		return nil
	}
	if m.Kind == Reactor {
		code, err := m.code(m.Code, m.CodeFile, "")
		m.Code, m.CodeFile = code, ""
		return err
	}
	for part, transform := range map[string]**Code{"request": &m.RequestTransform, "response": &m.ResponseTransform} {
		given := *transform
		if given == nil {
			given = &Code{}
		}
		code, err := m.code(given.Code, given.CodeFile, "."+part)
		if err != nil {
			return err
		}
		*transform = nil
		if code != "" {
			*transform = &Code{Code: code}
		}
	}
	return nil
}

// code returns the given code, or reads it from a file next to the manifest.
func (m *Manifest) code(code, file, part string) (string, error) {
	if code != "" && file != "" {
		return "", errors.New("give code or code_file, not both")
	}
	if code != "" {
		return code, nil
	}
	folder := filepath.Dir(m.File)
	if file != "" {
		text, err := shell.ReadFile(filepath.Join(folder, file))
		return string(text), err
	}
	for _, suffix := range codeSuffixes {
		text, err := shell.ReadFile(filepath.Join(folder, Stem(m.File)+part+suffix))
		if !errors.Is(err, fs.ErrNotExist) {
			return string(text), err
		}
	}
	return "", nil
}

// DescribesApplication reports whether the manifest has fields that only an application
// has.
func (m *Manifest) DescribesApplication() bool {
	return m.Type != "" || m.Permissions != nil || m.Rules != nil || m.Identities != nil || m.ExpiresAt != "" || m.CreateKey != nil
}

// DescribesCode reports whether the manifest has fields that an application lacks.
func (m *Manifest) DescribesCode() bool {
	return m.Application != "" || m.Settings != nil || m.Code != "" || m.CodeFile != "" || m.DestinationURL != "" ||
		m.RequireAuth != nil || m.RequestTransform != nil || m.ResponseTransform != nil
}

// Configuration returns the configuration with values from the environment.
func (m *Manifest) Configuration(getenv func(string) string) (map[string]string, error) {
	all := map[string]string{}
	for name, given := range m.Settings {
		switch v := given.(type) {
		case string:
			all[name] = v
			continue
		case map[string]any:
			if variable, ok := v["env"].(string); ok && len(v) == 1 {
				if all[name] = getenv(variable); all[name] == "" {
					return nil, fmt.Errorf("configuration.%s: the environment variable %s is not set", name, variable)
				}
				continue
			}
		}
		return nil, fmt.Errorf("configuration.%s: want a string in quotes, or {env: VARIABLE}", name)
	}
	return all, nil
}
