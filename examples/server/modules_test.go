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
	must.Same(t, "create: "+body, 201, status)
	_, id, _ := strings.Cut(body, `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	status, body = call(t, "POST", c.BaseURL+"/reactors/"+id+"/react", c.PrivateKey, `{"args":{"name":"Jane"}}`)
	must.Same(t, "react: status", 200, status)
	must.Contain(t, "react: body", body, `"said":"hello Jane"`)
	status, body = create("const x = require('no-such-package'); module.exports = async () => x")
	must.Same(t, "a missing package: status", 422, status)
	must.Contain(t, "a missing package: body", body, "greeting")
	p.stop()
}
