package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// manifest describes a reactor or a proxy in a file of YAML or JSON.
type manifest struct {
	Kind          string         `yaml:"kind"` // reactor or proxy; the default is the command's kind
	Name          string         `yaml:"name"` // the default is the name of the file
	Application   string         `yaml:"application"`
	Configuration map[string]any `yaml:"configuration"` // strings, or {env: VARIABLE}

	// Fields of a reactor.
	Code     string `yaml:"code"`
	CodeFile string `yaml:"code_file"`

	// Fields of a proxy.
	DestinationURL    string        `yaml:"destination_url"`
	RequireAuth       *bool         `yaml:"require_auth"`
	RequestTransform  *manifestCode `yaml:"request_transform"`
	ResponseTransform *manifestCode `yaml:"response_transform"`

	file string
}

// manifestCode is the code of a transform, or the name of its file.
type manifestCode struct {
	Code     string `yaml:"code"`
	CodeFile string `yaml:"code_file"`
}

// Suffixes of manifests and code files.
var (
	manifestSuffixes = []string{".yaml", ".yml", ".json"}
	codeSuffixes     = []string{".js", ".mjs", ".cjs", ".ts"}
)

// maxManifest is the maximum size of a file.
const maxManifest = 8 << 20

// readManifests reads the manifests of a kind from a file, or from all files
// of a folder, sorted by file name.
func readManifests(path, kind string) ([]*manifest, error) {
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
	var all []*manifest
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
			described[stem(e.Name())] = true
		}
	}
	for _, e := range entries {
		base := stem(e.Name())
		part := strings.TrimSuffix(strings.TrimSuffix(base, ".request"), ".response")
		if kind == reactorKind && !e.IsDir() && slices.Contains(codeSuffixes, filepath.Ext(e.Name())) && !described[base] && !described[part] {
			files = append(files, filepath.Join(folder, e.Name()))
		}
	}
	slices.Sort(files)
	return files, nil
}

func stem(file string) string {
	base := filepath.Base(file)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// readManifest reads one file: a manifest, or the code of a reactor without a
// manifest.
func readManifest(file, kind string) (*manifest, error) {
	m := &manifest{Kind: kind, Name: stem(file), file: file}
	if slices.Contains(codeSuffixes, filepath.Ext(file)) {
		m.Kind, m.CodeFile = reactorKind, filepath.Base(file)
		return m, m.readCode()
	}
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	if err := yaml.UnmarshalWithOptions(text, m, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false)) // without the source, which may contain secrets
	}
	return m, m.readCode()
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxManifest {
		return nil, fmt.Errorf("the file has more than %d MiB", maxManifest>>20)
	}
	return os.ReadFile(filepath.Clean(path))
}

// readCode reads the code files that the manifest names, or that have its
// name.
func (m *manifest) readCode() error {
	if m.Kind == reactorKind {
		code, err := m.code(m.Code, m.CodeFile, "")
		m.Code, m.CodeFile = code, ""
		return err
	}
	for part, transform := range map[string]**manifestCode{"request": &m.RequestTransform, "response": &m.ResponseTransform} {
		given := *transform
		if given == nil {
			given = &manifestCode{}
		}
		code, err := m.code(given.Code, given.CodeFile, "."+part)
		if err != nil {
			return err
		}
		*transform = nil
		if code != "" {
			*transform = &manifestCode{Code: code}
		}
	}
	return nil
}

// code returns the given code, or reads it from a file next to the manifest.
func (m *manifest) code(code, file, part string) (string, error) {
	if code != "" && file != "" {
		return "", errors.New("give code or code_file, not both")
	}
	if code != "" {
		return code, nil
	}
	folder := filepath.Dir(m.file)
	if file != "" {
		text, err := readFile(filepath.Join(folder, file))
		return string(text), err
	}
	for _, suffix := range codeSuffixes {
		text, err := readFile(filepath.Join(folder, stem(m.file)+part+suffix))
		if !errors.Is(err, fs.ErrNotExist) {
			return string(text), err
		}
	}
	return "", nil
}

// configuration returns the configuration with values from the environment.
func (m *manifest) configuration(getenv func(string) string) (map[string]string, error) {
	all := map[string]string{}
	for name, given := range m.Configuration {
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
