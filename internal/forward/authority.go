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
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault/internal/access"
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
	maxAge   = time.Second        // of the keys in memory
	maxHosts = 1000               // certificates in memory
)

// Authority signs the certificates that the proxy shows for hosts. Its keys are
// made once and sealed under the vault's own keys, so that all nodes share them.
type Authority struct {
	vault *core.Vault

	mu     sync.Mutex
	stored keyring.Document
	read   time.Time // when the keys were read
	signer *issuer
	leaf   *ecdsa.PrivateKey // of all leaves
	hosts  map[string]*tls.Certificate
}

// NewAuthority returns the authority of a vault.
func NewAuthority(v *core.Vault) *Authority { return &Authority{vault: v} }

// document is what is sealed: the issuers, newest first.
type document struct {
	Issuers []issuer `json:"issuers"`

	rev *int64 // nil if it is not stored
}

// issuer is a certificate of the authority with its key.
type issuer struct {
	Certificate []byte    `json:"certificate"`
	Key         []byte    `json:"key"`
	From        time.Time `json:"from"` // when it begins to sign

	cert *x509.Certificate
	key  any
}

// current returns the position of the issuer that signs: the newest that has begun.
func (d *document) current(now time.Time) int {
	for i := range d.Issuers {
		if !d.Issuers[i].From.After(now) {
			return i
		}
	}
	return len(d.Issuers) - 1
}

// pem returns the certificates that clients must trust: the newest, and those that
// still sign or will.
func (d *document) pem(now time.Time) (out []byte) {
	for _, i := range d.Issuers[:d.current(now)+1] {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate})...)
	}
	return out
}

// Certificates returns the certificates that clients must trust, in PEM.
func (a *Authority) Certificates(ctx context.Context) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	d, err := a.load(ctx)
	if err != nil {
		return nil, err
	}
	return d.pem(a.vault.Now()), nil
}

// Rotate adds a certificate with a new key, and returns what Certificates returns
// then. The former one signs for 7 more days, unless now is set. If there are
// domains, the certificate is valid only for hosts in them.
func (a *Authority) Rotate(ctx context.Context, now bool, domains []string) ([]byte, error) {
	if i := slices.IndexFunc(domains, func(d string) bool { return string(access.TargetOf(&url.URL{Scheme: "https", Host: d}, false)) != d }); i >= 0 {
		return nil, fault.Field("domains", "must be names such as example.com")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return core.RetryStale(func() ([]byte, error) {
		d, err := a.load(ctx)
		if err != nil {
			return nil, err
		}
		at := a.vault.Now()
		next, err := newIssuer(at, domains)
		if err != nil {
			return nil, err
		}
		d.Issuers = d.Issuers[:d.current(at)+1]
		if now {
			d.Issuers = nil
		} else {
			next.From = at.Add(overlap)
		}
		d.Issuers = slices.Insert(d.Issuers, 0, *next)
		return d.pem(at), a.store(ctx, d)
	})
}

// newIssuer returns a certificate that can sign only certificates of servers. It is
// valid for names and for loopback, and for no other address.
func newIssuer(now time.Time, domains []string) (*issuer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Vault forward proxy " + rand.Text()[:8]},
		NotBefore: now.Add(-skew), NotAfter: now.Add(caLife),
		KeyUsage: x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
		PermittedDNSDomainsCritical: true, PermittedDNSDomains: domains,
		PermittedIPRanges: []*net.IPNet{
			{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)}, {IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
		},
	}
	i := &issuer{From: now}
	if i.Certificate, err = sign(template, template, key, key); err != nil {
		return nil, err
	}
	i.Key, err = x509.MarshalPKCS8PrivateKey(key)
	return i, err
}

// sign creates a certificate with a random serial number.
func sign(template, parent *x509.Certificate, key *ecdsa.PrivateKey, by any) (_ []byte, err error) {
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
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
	template := &x509.Certificate{
		Subject:   pkix.Name{CommonName: "Vault forward proxy"},
		NotBefore: now.Add(-skew), NotAfter: now.Add(leafLife),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	ip := net.ParseIP(host)
	switch {
	case ip != nil && !ip.IsLoopback():
		return nil, fault.Field("", "must be a CONNECT to a name: the authority of the forward proxy is not valid for addresses")
	case ip != nil:
		template.IPAddresses = []net.IP{ip}
	case !permits(a.signer.cert.PermittedDNSDomains, host):
		return nil, fault.New(fault.ErrForbidden, "the authority of the forward proxy is not valid for this host")
	default:
		template.DNSNames = []string{host}
	}
	der, err := sign(template, a.signer.cert, a.leaf, a.signer.key)
	if err != nil {
		return nil, err
	}
	if len(a.hosts) >= maxHosts {
		clear(a.hosts)
	}
	a.hosts[host] = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: template}
	return a.hosts[host], nil
}

// permits reports whether a host is in one of the domains. No domains mean all.
func permits(domains []string, host string) bool {
	return len(domains) == 0 || slices.ContainsFunc(domains, func(d string) bool { return host == d || strings.HasSuffix(host, "."+d) })
}

// renew reads the keys if they may be too old. A new signer drops all leaves.
func (a *Authority) renew(ctx context.Context) error {
	if a.signer != nil && time.Since(a.read) < maxAge {
		return nil
	}
	read := time.Now()
	d, err := a.load(ctx)
	if err != nil {
		return err
	}
	next := d.Issuers[d.current(a.vault.Now())]
	if a.signer == nil || !slices.Equal(a.signer.Certificate, next.Certificate) {
		if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
		next.cert, err = x509.ParseCertificate(next.Certificate)
		if err == nil {
			next.key, err = x509.ParsePKCS8PrivateKey(next.Key)
		}
		if err != nil {
			return errFormat
		}
		a.signer, a.hosts = &next, map[string]*tls.Certificate{}
	}
	a.read = read
	return nil
}

var errFormat = errors.New("vault: the stored key of the forward proxy has a format that this version does not know")

// load returns the stored document. If there is none, it stores one with a new key.
func (a *Authority) load(ctx context.Context) (*document, error) {
	if a.stored.Ring == nil {
		ring, err := keyring.Own(ctx, a.vault.Store, a.vault.Master)
		if err != nil {
			return nil, err
		}
		a.stored = keyring.Document{Kind: "forward", Field: "key", Store: a.vault.Store, Ring: ring}
	}
	for {
		plain, rev, err := a.stored.Read(ctx)
		if err != nil {
			return nil, fmt.Errorf("vault: the key of the forward proxy: %w", err)
		}
		d := &document{rev: rev}
		if rev != nil {
			if err := json.Unmarshal(plain, d); err != nil || len(d.Issuers) == 0 {
				return nil, errFormat
			}
			return d, nil
		}
		first, err := newIssuer(a.vault.Now(), nil)
		if err != nil {
			return nil, err
		}
		d.Issuers = []issuer{*first}
		// The document is read again, because another node may have been faster.
		if err := a.store(ctx, d); err != nil && !errors.Is(err, storage.ErrExists) {
			return nil, err
		}
	}
}

func (a *Authority) store(ctx context.Context, d *document) error {
	plain, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return a.stored.Write(ctx, plain, d.rev, a.vault.Now())
}
