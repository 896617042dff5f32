package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestModules gives tenants' code the packages of a folder, and no others.
func TestModules(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := filepath.Join(folder, "node_modules", "greeting", "index.js")
	must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must.Do(t, os.WriteFile(file, []byte("module.exports = (name) => 'hello ' + name;"), 0o600))
	p := start(t, t.TempDir(), "-modules", folder)
	c := p.credentials()
	create := func(code string) (int, string) {
		return call(t, "POST", c.BaseURL+"/reactors", c.ManagementKey, `{"name":"r","code":"`+code+`","configuration":{}}`)
	}
	status, body := create("module.exports = async (req) => ({ raw: { said: require('greeting')(req.args.name) } })")
	if status != 201 {
		t.Fatalf("create: %d %s", status, body)
	}
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	status, body = call(t, "POST", c.BaseURL+"/reactors/"+id+"/react", c.PrivateKey, `{"args":{"name":"Jane"}}`)
	if status != 200 || !strings.Contains(body, `"said":"hello Jane"`) {
		t.Errorf("react: %d %s", status, body)
	}
	status, body = create("const x = require('no-such-package'); module.exports = async () => x")
	if status != 422 || !strings.Contains(body, "greeting") {
		t.Errorf("a missing package: %d %s, want a 422 that lists the existing ones", status, body)
	}
	p.stop()
}
