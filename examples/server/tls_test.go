package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

func TestTLSAndAnotherPrefix(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	writeCertificate(t, folder)
	p := start(t, folder, "-tls-cert", "cert.pem", "-tls-key", "key.pem", "-prefix", "BT-")
	lines := p.curlLines()
	if len(lines) != 3 || !strings.Contains(lines[0], "https://") || !strings.Contains(lines[0], "BT-API-KEY") {
		t.Fatalf("curl lines: %v", lines)
	}
	for _, line := range lines {
		if out := p.paste(line); strings.Contains(out, `"status"`) || !strings.Contains(out, p.credentials().TenantID) {
			t.Errorf("%s\nanswered %s", line, out)
		}
	}
	p.stop()
}

// TestSIGHUPReadsTheCertificateAgain replaces the certificate of a running server.
// Without TLS the signal has no effect.
func TestSIGHUPReadsTheCertificateAgain(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	cert := filepath.Join(folder, "cert.pem")
	writeCertificate(t, folder)
	old := trusting(t, cert)
	p, plain := start(t, folder, "-tls-cert", "cert.pem", "-tls-key", "key.pem"), start(t, t.TempDir())
	url := p.credentials().BaseURL + "/healthz"
	if res, err := (&http.Client{Transport: old}).Get(url); err != nil {
		t.Fatal(err)
	} else {
		res.Body.Close()
	}
	writeCertificate(t, folder)
	for _, server := range []*process{p, plain} {
		must.Do(t, server.Process.Signal(syscall.SIGHUP))
	}
	renewed := &http.Client{Transport: trusting(t, cert)}
	for {
		res, err := renewed.Get(url)
		if err == nil {
			res.Body.Close()
			break
		}
		must.Contain(t, "err.Error", err.Error(), "certificate")
	}
	wants(t, http.StatusOK, "GET", plain.credentials().BaseURL+"/healthz", "", "")
	p.stop()
	plain.stop()
}

// trusting returns a transport that trusts a certificate.
func trusting(t *testing.T, file string) *http.Transport {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}
}

// writeCertificate writes cert.pem and key.pem for 127.0.0.1.
func writeCertificate(t *testing.T, folder string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "vault"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	raw := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]*pem.Block{
		"cert.pem": {Type: "CERTIFICATE", Bytes: cert}, "key.pem": {Type: "PRIVATE KEY", Bytes: raw},
	} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), pem.EncodeToMemory(block), 0o600))
	}
}
