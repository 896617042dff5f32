package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestDemoTenantIsFoundAfterRename loses the credentials in a
// database where names are not sufficient to identify a tenant.
func TestDemoTenantIsFoundAfterRename(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	newTenant := func(name string) string {
		t.Helper()
		out, err := command(folder, "", "-new-tenant", name).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	older := newTenant("Demo")
	p := start(t, folder)
	before := p.credentials()
	must.Lack(t, "a tenant of -new-tenant is treated as the demo tenant", older, before.TenantID)
	newTenant("Demo")
	wants(t, http.StatusOK, "PUT", before.BaseURL+"/tenants/self", before.ManagementKey, `{"name":"Renamed"}`)
	wants(t, http.StatusCreated, "POST", before.BaseURL+"/tokens", before.PublicKey, genericToken)
	p.stop()
	must.Do(t, os.Remove(filepath.Join(folder, "vault-credentials.json")))
	p = start(t, folder)
	after := p.credentials()
	if after.TenantID != before.TenantID || after.PrivateKey == before.PrivateKey {
		t.Errorf("tenant %s, want new keys of %s", after.TenantID, before.TenantID)
	}
	for _, key := range []string{after.PrivateKey, before.PrivateKey} {
		wants(t, http.StatusOK, "GET", after.BaseURL+"/tokens/a-token", key, "")
	}
	p.stop()
}

func TestServerWideOptionsHasATraceID(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	conn := must.Get(net.Dial("tcp", strings.TrimPrefix(p.credentials().BaseURL, "http://")))(t)
	defer conn.Close()
	must.Get(io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
	res := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer res.Body.Close()
	text := must.Get(io.ReadAll(res.Body))(t)
	if res.StatusCode != http.StatusNotFound || res.Header.Get("SVC-TRACE-ID") == "" || !strings.Contains(string(text), `"status":404`) {
		t.Errorf("%s %v\n%s", res.Status, res.Header, text)
	}
	p.stop()
}
