package browser

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

//go:embed axe
var axeFiles embed.FS // what npm installs axe-core from

// axe is the source of axe-core, which npm installs.
var axe struct {
	once sync.Once
	text string
	err  error
}

// Axe returns the source of axe-core. The first call installs it.
func Axe(t *testing.T) string {
	t.Helper()
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("there is no npm here to install axe-core with")
	}
	axe.once.Do(func() { axe.text, axe.err = installAxe(npm) })
	if axe.err != nil {
		t.Fatal(axe.err)
	}
	return axe.text
}

func installAxe(npm string) (string, error) {
	dir, err := os.MkdirTemp("", "vault-axe-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := axeFiles.ReadFile("axe/" + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	cmd := exec.CommandContext(context.Background(), npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("is the registry of npm within reach? %w\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "axe-core", "axe.min.js"))
	return string(text), err
}

// Violations checks the page with all rules of axe-core, or with some of them. source is
// the result of Axe.
func (p *Tab) Violations(source string, rules ...string) []string {
	p.T.Helper()
	only := must.Get(json.Marshal(map[string]any{"resultTypes": []string{"violations"}, "runOnly": map[string]any{"type": "rule", "values": rules}}))(p.T)
	if len(rules) == 0 {
		only = []byte(`{"resultTypes": ["violations"]}`)
	}
	p.Run(source + "; undefined")
	text := p.Value(fmt.Sprintf(`axe.run(document, %s).then((r) => JSON.stringify(r.violations.map((v) => v.id + ': ' + v.nodes.map((n) => n.target.join(' ') + ' ' + n.failureSummary).slice(0, 3).join(' | '))))`, only))
	var all []string
	must.Do(p.T, json.Unmarshal([]byte(text), &all))
	return all
}
