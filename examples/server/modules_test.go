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
	create := func(status int, code string) string {
		return wants(t, status, "POST", c.BaseURL+"/reactors", c.ManagementKey, `{"name":"r","code":"`+code+`","configuration":{}}`)
	}
	made := create(201, "module.exports = async (req) => ({ raw: { said: require('greeting')(req.args.name) } })")
	_, id, _ := strings.Cut(made, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	said := wants(t, 200, "POST", c.BaseURL+"/reactors/"+id+"/react", c.PrivateKey, `{"args":{"name":"Jane"}}`)
	must.Contain(t, "react", said, `"said":"hello Jane"`)
	refused := create(422, "const x = require('no-such-package'); module.exports = async () => x")
	must.Contain(t, "a missing package", refused, "greeting")
	p.stop()
}
