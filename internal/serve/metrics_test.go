package serve

import (
	"path/filepath"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// The server has the metrics of a vault, of its certificate and of its process.
func TestMetricsOfTheServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert := &certificate{certFile: filepath.Join(dir, "cert"), keyFile: filepath.Join(dir, "key")}
	writePair(t, cert.certFile, cert.keyFile, 1)
	must.Get(cert.read(true))(t)
	m := newMetrics(cert)
	m.Watch(newVault(t))
	text := scrape(t, m)
	for _, name := range []string{
		"vault_tls_certificate_expiry_timestamp_seconds ", "vault_tenants 0\n", "vault_alarms_total{", "vault_db_connections{",
		"process_resident_memory_bytes ", "go_goroutines ",
	} {
		must.Contain(t, "the metrics", text, name)
	}
	if text = scrape(t, newMetrics(nil)); text == "" {
		t.Error("no metrics without a vault")
	}
}
