// Package spiffetest checks that vaultoidc accepts what go-spiffe calls a JWT-SVID. It
// is a separate module, so that no program downloads go-spiffe.
package spiffetest

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/spiffe/go-spiffe/v2/bundle/jwtbundle"
	"github.com/spiffe/go-spiffe/v2/bundle/spiffebundle"
	"github.com/spiffe/go-spiffe/v2/spiffeid"
	"github.com/spiffe/go-spiffe/v2/svid/jwtsvid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaultoidc"
)

const issuer = "https://oidc.example.org"

// svid returns a JWT-SVID as SPIRE makes it, which go-spiffe accepts. Without an
// issuer it has no claim iss.
func svid(t *testing.T, bundle jwtbundle.Source, kid string, key crypto.Signer, algorithm jose.SignatureAlgorithm, iss string) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT").WithHeader(jose.HeaderKey("kid"), kid)
	signer := must.Get(jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options))(t)
	id := must.Get(spiffeid.FromString("spiffe://example.org/shop/checkout"))(t)
	claims := jwt.Claims{
		Issuer: iss, Subject: id.String(), Audience: jwt.Audience{"vault"},
		IssuedAt: jwt.NewNumericDate(time.Now()), Expiry: jwt.NewNumericDate(time.Now().Add(5 * time.Minute)),
	}
	text := must.Get(jwt.Signed(signer).Claims(claims).Serialize())(t)
	parsed := must.Get(jwtsvid.ParseAndValidate(text, bundle, []string{"vault"}))(t)
	must.Same(t, "the SPIFFE ID", id.String(), parsed.ID.String())
	return text
}

func TestJWTSVID(t *testing.T) {
	t.Parallel()
	domain := must.Get(spiffeid.TrustDomainFromString("example.org"))(t)
	ec := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	rsaKey := must.Get(rsa.GenerateKey(rand.Reader, 2048))(t)
	bundle := spiffebundle.New(domain)
	must.Do(t, bundle.AddJWTAuthority("ec", ec.Public()))
	must.Do(t, bundle.AddJWTAuthority("rsa", rsaKey.Public()))
	bundle.AddX509Authority(authority(t, ec)) // its key has the use x509-svid, and no kid

	for name, text := range map[string][]byte{
		"a bundle of keys of JWTs":     must.Get(bundle.JWTBundle().Marshal())(t),
		"a bundle of the trust domain": must.Get(bundle.Marshal())(t),
	} {
		file := filepath.Join(t.TempDir(), "bundle.json")
		must.Do(t, os.WriteFile(file, text, 0o600))
		ctx, cancel := context.WithCancel(t.Context())
		v := must.Get(vaultoidc.New(ctx, vaultoidc.Issuer{URL: issuer, JWKS: file}))(t)
		for kid, key := range map[string]crypto.Signer{"ec": ec, "rsa": rsaKey} {
			algorithm := map[string]jose.SignatureAlgorithm{"ec": jose.ES256, "rsa": jose.RS256}[kid]
			claims, err := v.Verify(ctx, svid(t, bundle, kid, key, algorithm, issuer))
			must.Match(t, name+", "+kid, err, nil)
			must.Same(t, "sub", any("spiffe://example.org/shop/checkout"), claims["sub"])
			must.Same(t, "aud", any("vault"), claims["aud"])
			_, err = v.Verify(ctx, svid(t, bundle, kid, key, algorithm, ""))
			must.Match(t, "without jwt_issuer in SPIRE", err, must.Text("the issuer of the JWT is not known"))
		}
		cancel()
	}
}

// authority returns a certificate of a key.
func authority(t *testing.T, key *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "example.org"}, NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return must.Get(x509.ParseCertificate(der))(t)
}
