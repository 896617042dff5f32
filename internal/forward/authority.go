package forward

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 24 * time.Hour
	renewal  = time.Hour          // a leaf is replaced when less is left
	skew     = 5 * time.Minute    // how far the clock of a client may be behind
	overlap  = 7 * 24 * time.Hour // how long a former certificate signs
	maxHosts = 1000               // certificates in memory
)

// Authority signs the certificates that the proxy shows for hosts. Its keys are
// made once and sealed under the vault's own keys, so that all nodes share them.
type Authority struct {
	vault *core.Vault

	mu     sync.Mutex
	stored keyring.Document
	read   time.Time // when the keys were read
	signer tls.Certificate
	leaf   *ecdsa.PrivateKey           // of all leaves
	hosts  map[string]*tls.Certificate // leaves of the signer
}

// NewAuthority returns the authority of a vault.
func NewAuthority(v *core.Vault) *Authority { return &Authority{vault: v} }

// issuers are the certificates of the authority with their keys, newest first. They
// are sealed as JSON.
type issuers []issuer

type issuer struct {
	Certificate []byte    `json:"certificate"` // PEM, as the key
	Key         []byte    `json:"key"`
	From        time.Time `json:"from"` // when it begins to sign
}

// current returns the position of the issuer that signs: the newest that has begun.
func (all issuers) current(now time.Time) int {
	return max(0, slices.IndexFunc(all, func(i issuer) bool { return !i.From.After(now) }))
}

// pem returns the certificates that clients must trust: the newest, and those that
// still sign or will.
func (all issuers) pem(now time.Time) (out []byte) {
	for _, i := range all[:all.current(now)+1] {
		out = append(out, i.Certificate...)
	}
	return out
}

// Certificates returns the certificates that clients must trust, in PEM.
func (a *Authority) Certificates(ctx context.Context) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, _, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	return all.pem(a.vault.Now()), nil
}

// Rotate adds a certificate with a new key, and returns what Certificates returns
// then. The former one signs for 7 more days, unless now is set. If there are
// domains, the certificate is valid only for hosts in them.
func (a *Authority) Rotate(ctx context.Context, now bool, domains []string) ([]byte, error) {
	if slices.ContainsFunc(domains, func(d string) bool { return string(targetOf(d)) != d }) {
		return nil, fault.Field("domains", "must be names such as example.com")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return core.RetryStale(func() ([]byte, error) {
		all, rev, err := a.load(ctx)
		if err != nil {
			return nil, err
		}
		at := a.vault.Now()
		all, from := all[:all.current(at)+1], at.Add(overlap)
		if now {
			all, from = nil, at
		}
		all, err = a.add(ctx, all, rev, from, domains)
		return all.pem(at), err
	})
}

// add stores the issuers with a new one, which begins to sign at from.
func (a *Authority) add(ctx context.Context, all issuers, rev *int64, from time.Time, domains []string) (issuers, error) {
	now := a.vault.Now()
	next, err := newIssuer(now, domains)
	if err != nil {
		return nil, err
	}
	next.From = from
	all = append(issuers{next}, all...)
	plain, err := json.Marshal(all)
	if err != nil {
		return nil, err
	}
	return all, a.stored.Write(ctx, plain, rev, now)
}

// load returns the stored issuers and their revision. The first call on a database
// stores an issuer.
func (a *Authority) load(ctx context.Context) (all issuers, rev *int64, err error) {
	if a.stored.Ring == nil {
		ring, err := keyring.Own(ctx, a.vault.Store, a.vault.Master)
		if err != nil {
			return nil, nil, err
		}
		a.stored = keyring.Document{Kind: "forward", Field: "key", Store: a.vault.Store, Ring: ring}
	}
	plain, rev, err := a.stored.Read(ctx)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("vault: the key of the forward proxy: %w", err)
	case rev == nil:
		if _, err := a.add(ctx, nil, nil, a.vault.Now(), nil); err != nil && !errors.Is(err, storage.ErrExists) {
			return nil, nil, err
		}
		return a.load(ctx) // another node may have been faster
	}
	if err := json.Unmarshal(plain, &all); err != nil || len(all) == 0 {
		return nil, nil, errFormat
	}
	return all, rev, nil
}

var errFormat = errors.New("vault: the stored key of the forward proxy has a format that this version does not know")

// newIssuer returns a certificate that can sign only certificates of servers. It is
// valid for names and for loopback, and for no other address.
func newIssuer(now time.Time, domains []string) (i issuer, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return i, err
	}
	c := template("Vault forward proxy "+rand.Text()[:8], now, caLife)
	c.KeyUsage, c.BasicConstraintsValid, c.IsCA, c.MaxPathLenZero = x509.KeyUsageCertSign, true, true, true
	c.PermittedDNSDomainsCritical, c.PermittedDNSDomains = true, domains
	c.PermittedIPRanges = []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}, {IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return i, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	i.Certificate = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	i.Key = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	return i, err
}

// template returns what all certificates have.
func template(name string, now time.Time, life time.Duration) *x509.Certificate {
	var serial [15]byte
	_, _ = rand.Read(serial[:]) // it never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// certificate returns a certificate for a host.
func (a *Authority) certificate(ctx context.Context, host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renew(ctx); err != nil {
		return nil, err
	}
	now := a.vault.Now()
	if c := a.hosts[host]; c != nil && c.Leaf.NotAfter.Sub(now) > renewal {
		return c, nil
	}
	c := template("Vault forward proxy", now, leafLife)
	switch ip := net.ParseIP(host); {
	case ip == nil:
		c.DNSNames = []string{host}
	case ip.IsLoopback():
		c.IPAddresses = []net.IP{ip}
	default:
		return nil, fault.Field("", "must be a CONNECT to a name: the authority of the forward proxy is not valid for addresses")
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.signer.Leaf, a.leaf.Public(), a.signer.PrivateKey)
	if err != nil {
		return nil, err
	}
	if len(a.hosts) >= maxHosts {
		clear(a.hosts)
	}
	a.hosts[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: c}
	return a.hosts[host], nil
}

// renew reads the keys if they may be too old. A new signer drops all leaves.
func (a *Authority) renew(ctx context.Context) error {
	if time.Since(a.read) < core.MaxAge {
		return nil
	}
	read := time.Now()
	all, _, err := a.load(ctx)
	if err != nil {
		return err
	}
	next := all[all.current(a.vault.Now())]
	signer, err := tls.X509KeyPair(next.Certificate, next.Key)
	if err != nil {
		return errFormat
	}
	if !signer.Leaf.Equal(a.signer.Leaf) {
		if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
		a.signer, a.hosts = signer, map[string]*tls.Certificate{}
	}
	a.read = read
	return nil
}
