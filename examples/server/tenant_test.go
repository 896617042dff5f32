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
	if strings.Contains(older, before.TenantID) {
		t.Error("a tenant of -new-tenant is treated as the demo tenant")
	}
	newTenant("Demo")
	if status, body := call(t, "PUT", before.BaseURL+"/tenants/self", before.ManagementKey, `{"name":"Renamed"}`); status != http.StatusOK {
		t.Fatal(status, body)
	}
	if status, body := call(t, "POST", before.BaseURL+"/tokens", before.PublicKey, genericToken); status != http.StatusCreated {
		t.Fatal(status, body)
	}
	p.stop()
	if err := os.Remove(filepath.Join(folder, "vault-credentials.json")); err != nil {
		t.Fatal(err)
	}
	p = start(t, folder)
	after := p.credentials()
	if after.TenantID != before.TenantID || after.PrivateKey == before.PrivateKey {
		t.Errorf("tenant %s, want new keys of %s", after.TenantID, before.TenantID)
	}
	if status, body := call(t, "GET", after.BaseURL+"/tokens/a-token", after.PrivateKey, ""); status != http.StatusOK {
		t.Errorf("the token: %d %s", status, body)
	}
	p.stop()
}

func TestServerWideOptionsHasATraceID(t *testing.T) {
	t.Parallel()
	p := start(t, t.TempDir())
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.credentials().BaseURL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusNotFound || res.Header.Get("SVC-TRACE-ID") == "" || !strings.Contains(string(text), `"status":404`) {
		t.Errorf("%s %v\n%s", res.Status, res.Header, text)
	}
	p.stop()
}
