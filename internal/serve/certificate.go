package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// certificateAge is how often the files of a certificate are read.
const certificateAge = 10 * time.Second

// certificate is the TLS certificate of the server, as its files had it last.
type certificate struct {
	certFile, keyFile string
	pair              atomic.Pointer[tls.Certificate]
	seen              string // content of the files, or the error, at the last attempt
}

// get returns the certificate, for [tls.Config].
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.pair.Load(), nil }

// read reads the files, and replaces the certificate if they hold a pair. It
// reports whether it did. Without always, files that have not changed since the
// last call are not looked at, so that a bad pair is reported once.
func (c *certificate) read(always bool) (replaced bool, err error) {
	cert, certErr := os.ReadFile(c.certFile)
	key, keyErr := os.ReadFile(c.keyFile)
	err = errors.Join(certErr, keyErr)
	seen := string(cert) + "\x00" + string(key)
	if err != nil {
		seen = err.Error()
	}
	if seen == c.seen && !always {
		return false, nil
	}
	c.seen = seen
	if err != nil {
		return false, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, err
	}
	c.pair.Store(&pair)
	return true, nil
}

// watch reads the files again at each tick and each signal, until ctx ends. c may
// be nil: then signals have no effect.
func (c *certificate) watch(ctx context.Context, tick <-chan time.Time, signals <-chan os.Signal, logger *slog.Logger) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-signals:
			c.look(true, logger)
		case <-tick:
			c.look(false, logger)
		}
	}
}

// look reads the files again, and logs what came of it.
func (c *certificate) look(always bool, logger *slog.Logger) {
	if c == nil {
		return
	}
	switch replaced, err := c.read(always); {
	case err != nil:
		logger.Warn("the TLS certificate cannot be replaced, so the old one serves", "error", err)
	case replaced:
		logger.Info("the TLS certificate was read again")
	}
}
