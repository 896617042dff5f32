package relay

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

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	caLife   = 10 * 365 * 24 * time.Hour
	leafLife = 24 * time.Hour
	renewal  = time.Hour          // a leaf is replaced when less is left
	skew     = 5 * time.Minute    // how far the clock of a client may be behind
	overlap  = 7 * 24 * time.Hour // how long a former certificate signs
	maxHosts = 1000               // certificates in memory
	maxOwn   = maxHosts / 4       // of one tenant
)

// Authority signs the certificates that the proxy shows for hosts. Its keys are
// made once and sealed under the vault's own keys, so that all nodes share them.
type Authority struct {
	vault *core.Vault

	mu     sync.Mutex
	stored keyring.Document
	read   time.Time // when the keys were read
	signer tls.Certificate
	leaf   *ecdsa.PrivateKey    // of all leaves
	hosts  map[uuid.UUID]leaves // of the signer, by tenant
	kept   int                  // leaves in hosts
}

// leaves are the certificates of one tenant by host.
type leaves map[string]*tls.Certificate

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

// pem returns the certificates that clients must trust: the newest certificate, and
// any other that still signs or will sign.
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
	if slices.ContainsFunc(domains, func(d string) bool { return hostOf(d) != d }) {
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

// kindAuthority is the kind of the record with the issuers.
var kindAuthority = seal.RecordKind("forward")

// load returns the stored issuers and their revision. The first call on a database
// stores an issuer.
func (a *Authority) load(ctx context.Context) (all issuers, rev *int64, err error) {
	if a.stored.Ring == nil {
		ring, err := keyring.Own(ctx, a.vault.Store, a.vault.Root)
		if err != nil {
			return nil, nil, err
		}
		a.stored = keyring.Document{Kind: kindAuthority, Field: "key", Store: a.vault.Store, Ring: ring}
	}
	for range core.MaxAttempts {
		plain, rev, err := a.stored.Read(ctx)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("vault: the key of the forward proxy: %w", err)
		case rev == nil:
			_, err := a.add(ctx, nil, nil, a.vault.Now(), nil)
			if err != nil && !errors.Is(err, storage.ErrExists) {
				return nil, nil, err
			}
			continue // another node may have been faster
		case json.Unmarshal(plain, &all) != nil || len(all) == 0:
			return nil, nil, errAuthority
		}
		return all, rev, nil
	}
	return nil, nil, fault.ErrFaster // or the database drops what is written
}

var errAuthority = errors.New("vault: the stored key of the forward proxy has a format that this version does not know")

// newIssuer returns a certificate that can sign only certificates of servers. It is
// valid for names and for loopback, and for no other address.
func newIssuer(now time.Time, domains []string) (i issuer, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return i, err
	}
	c := certificateOf("Vault forward proxy "+rand.Text()[:8], now, caLife)
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

// certificateOf returns what all certificates have.
func certificateOf(name string, now time.Time, life time.Duration) *x509.Certificate {
	var serial [15]byte
	_, _ = rand.Read(serial[:]) // it never fails
	return &x509.Certificate{
		SerialNumber: new(big.Int).SetBytes(serial[:]), Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-skew), NotAfter: now.Add(life),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
}

// certificate returns a certificate for a host. A new one is made in the turn of
// the tenant, and takes the place of the tenant's own certificates first.
func (a *Authority) certificate(ctx context.Context, room *admission.Room, tenant uuid.UUID, host string) (*tls.Certificate, error) {
	if c, err := a.known(ctx, tenant, host); c != nil || err != nil {
		return c, err
	}
	if err := room.Turn(ctx); err != nil {
		return nil, err
	}
	defer room.Rest()
	a.mu.Lock()
	defer a.mu.Unlock()
	c := certificateOf("Vault forward proxy", a.vault.Now(), leafLife)
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
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: a.leaf, Leaf: c}
	a.keep(tenant, host, cert)
	return cert, nil
}

// known returns the certificate for a host that is kept, or nil.
func (a *Authority) known(ctx context.Context, tenant uuid.UUID, host string) (*tls.Certificate, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.renew(ctx); err != nil {
		return nil, err
	}
	if c := a.hosts[tenant][host]; c != nil && c.Leaf.NotAfter.Sub(a.vault.Now()) > renewal {
		return c, nil
	}
	return nil, nil
}

// keep keeps a certificate. If the tenant has too many, its others are dropped. If
// all tenants together have too many, the tenant with the most loses its
// certificates.
func (a *Authority) keep(tenant uuid.UUID, host string, cert *tls.Certificate) {
	drop := tenant
	if len(a.hosts[tenant]) < maxOwn {
		for other := range a.hosts {
			if len(a.hosts[other]) > len(a.hosts[drop]) {
				drop = other
			}
		}
	}
	if len(a.hosts[tenant]) >= maxOwn || a.kept >= maxHosts {
		a.kept -= len(a.hosts[drop])
		delete(a.hosts, drop)
	}
	if a.hosts[tenant] == nil {
		a.hosts[tenant] = leaves{}
	}
	if a.hosts[tenant][host] == nil {
		a.kept++
	}
	a.hosts[tenant][host] = cert
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
		return errAuthority
	}
	if !signer.Leaf.Equal(a.signer.Leaf) {
		if a.leaf, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return err
		}
		a.signer, a.hosts, a.kept = signer, map[uuid.UUID]leaves{}, 0
	}
	a.read = read
	return nil
}
