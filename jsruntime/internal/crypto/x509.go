package crypto

import (
	"crypto/sha1" //nolint:gosec // the fingerprint that Node shows
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"strings"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// certificate reads PEM or DER, or throws.
func (c *State) certificate(v goja.Value) *x509.Certificate {
	der := c.BytesOf(v)
	if block, _ := pem.Decode(der); block != nil {
		der = block.Bytes
	}
	cert, err := x509.ParseCertificate(der)
	c.checkKey(err == nil)
	return cert
}

// certificateParse returns the parts of a certificate in Node's format.
func (c *State) certificateParse(args []goja.Value) goja.Value {
	cert := c.certificate(native.Arg(args, 0))
	const layout = "Jan _2 15:04:05 2006 GMT"
	sum1, sum256, sum512 := sha1.Sum(cert.Raw), sha256.Sum256(cert.Raw), sha512.Sum512(cert.Raw) //nolint:gosec // see above
	o := c.VM.NewObject()
	for name, value := range map[string]string{
		"subject": nameLines(cert.Subject), "issuer": nameLines(cert.Issuer), "subjectAltName": alternatives(cert),
		"validFrom": cert.NotBefore.UTC().Format(layout), "validTo": cert.NotAfter.UTC().Format(layout),
		"fingerprint": colons(sum1[:]), "fingerprint256": colons(sum256[:]), "fingerprint512": colons(sum512[:]),
		"serialNumber": strings.ToUpper(fmt.Sprintf("%x", cert.SerialNumber.Bytes())),
		"pem":          string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})),
	} {
		c.Set(o, name, value)
	}
	c.Set(o, "ca", cert.IsCA)
	c.Set(o, "raw", c.Buffer(cert.Raw))
	c.Set(o, "key", c.describeKey(cert.PublicKey))
	return o
}

// nameLines writes a name with one part per line, in the order of the
// certificate.
func nameLines(name pkix.Name) string {
	short := map[string]string{
		"2.5.4.6": "C", "2.5.4.8": "ST", "2.5.4.7": "L", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.3": "CN",
		"1.2.840.113549.1.9.1": "emailAddress", "2.5.4.5": "serialNumber", "0.9.2342.19200300.100.1.25": "DC",
	}
	lines := make([]string, 0, len(name.Names))
	for _, part := range name.Names {
		key, ok := short[part.Type.String()]
		if !ok {
			key = part.Type.String()
		}
		lines = append(lines, fmt.Sprintf("%s=%v", key, part.Value))
	}
	return strings.Join(lines, "\n")
}

func alternatives(cert *x509.Certificate) string {
	var out []string
	for _, name := range cert.DNSNames {
		out = append(out, "DNS:"+name)
	}
	for _, ip := range cert.IPAddresses {
		out = append(out, "IP Address:"+ip.String())
	}
	for _, mail := range cert.EmailAddresses {
		out = append(out, "email:"+mail)
	}
	for _, uri := range cert.URIs {
		out = append(out, "URI:"+uri.String())
	}
	return strings.Join(out, ", ")
}

func colons(b []byte) string {
	return strings.ReplaceAll(strings.ToUpper(fmt.Sprintf("% x", b)), " ", ":")
}

// certificateCheck takes a certificate, what to check (host, email, ip) and the
// value. It returns the matching name in the certificate, or undefined.
func (c *State) certificateCheck(args []goja.Value) goja.Value {
	cert, value := c.certificate(native.Arg(args, 0)), native.Arg(args, 2).String()
	names := []string{}
	switch native.Arg(args, 1).String() {
	case "email":
		names = append(names, cert.EmailAddresses...)
		for _, part := range cert.Subject.Names {
			if part.Type.String() == "1.2.840.113549.1.9.1" {
				names = append(names, fmt.Sprint(part.Value))
			}
		}
	case "ip":
		for _, ip := range cert.IPAddresses {
			names = append(names, ip.String())
		}
	default:
		if names = cert.DNSNames; len(names) == 0 {
			names = []string{cert.Subject.CommonName}
		}
	}
	for _, name := range names {
		if strings.EqualFold(name, value) || matchesWildcard(name, value) {
			return c.VM.ToValue(name)
		}
	}
	return goja.Undefined()
}

// matchesWildcard reports whether a pattern like *.example matches a host. The
// star matches one label.
func matchesWildcard(pattern, host string) bool {
	tail, ok := strings.CutPrefix(pattern, "*.")
	_, rest, found := strings.Cut(host, ".")
	return ok && found && strings.EqualFold(tail, rest)
}

// certificateIssued reports whether the second certificate issued the first.
func (c *State) certificateIssued(args []goja.Value) goja.Value {
	cert, issuer := c.certificate(native.Arg(args, 0)), c.certificate(native.Arg(args, 1))
	return c.VM.ToValue(string(cert.RawIssuer) == string(issuer.RawSubject))
}

// certificateVerify reports whether a public key signed a certificate.
func (c *State) certificateVerify(args []goja.Value) goja.Value {
	cert := c.certificate(native.Arg(args, 0))
	signer := &x509.Certificate{PublicKey: c.key(native.Arg(args, 1)), PublicKeyAlgorithm: cert.PublicKeyAlgorithm}
	return c.VM.ToValue(signer.CheckSignature(cert.SignatureAlgorithm, cert.RawTBSCertificate, cert.Signature) == nil)
}
