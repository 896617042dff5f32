package serve

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// writePair writes a new certificate and its key.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour)}
	cert := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	raw := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: raw}} {
		must.Do(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
	}
}

// A certificate is replaced at a tick or a signal, and never by a pair that does
// not fit. A bad pair is reported once, and again after a signal.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := &certificate{certFile: filepath.Join(dir, "cert"), keyFile: filepath.Join(dir, "key")}
	writePair(t, c.certFile, c.keyFile, 1)
	must.Get(c.read(true))(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	for _, step := range []struct {
		name   string
		change func()
		signal bool
		serial int64
		warns  int // so far
	}{
		{"nothing new", func() {}, false, 1, 0},
		{"a new pair at a tick", func() { writePair(t, c.certFile, c.keyFile, 2) }, false, 2, 0},
		{"a new pair at a signal", func() { writePair(t, c.certFile, c.keyFile, 3) }, true, 3, 0},
		{"the key of another certificate", func() { writePair(t, filepath.Join(dir, "other"), c.keyFile, 4) }, false, 3, 1},
		{"the same again", func() {}, false, 3, 1},
		{"the same again at a signal", func() {}, true, 3, 2},
		{"a missing file", func() { _ = os.Remove(c.keyFile) }, false, 3, 3},
		{"a good pair again", func() { writePair(t, c.certFile, c.keyFile, 5) }, false, 5, 3},
	} {
		step.change()
		c.look(step.signal, logger)
		pair, _ := c.get(nil)
		must.Same(t, step.name+": certificate", step.serial, pair.Leaf.SerialNumber.Int64())
		must.Same(t, step.name, step.warns, strings.Count(log.String(), "level=WARN"))
	}
	writePair(t, c.certFile, c.keyFile, 6)
	ctx, cancel := context.WithCancel(t.Context())
	tick, done := make(chan time.Time), make(chan struct{})
	go func() {
		defer close(done)
		c.watch(ctx, tick, nil, logger)
	}()
	tick <- time.Time{}
	cancel()
	<-done
	if pair, _ := c.get(nil); pair.Leaf.SerialNumber.Int64() != 6 {
		t.Errorf("after a tick: certificate %d", pair.Leaf.SerialNumber)
	}
}
