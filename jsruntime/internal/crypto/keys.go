package crypto

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"slices"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

var errKey = errors.New("not a key of a known kind")

// checkKey throws unless key material could be read.
func (c *State) checkKey(ok bool) {
	c.Check(ok, "Error", "ERR_OSSL_PEM_NO_START_LINE", "error:0909006C:PEM routines:get_name:no start line")
}

// parsePEM reads the first key of PEM text.
func parsePEM(text []byte) (any, error) {
	for {
		block, rest := pem.Decode(text)
		if block == nil {
			return nil, errKey
		}
		if key, err := parseDER(block.Bytes, block.Type); err == nil {
			return key, nil
		}
		text = rest
	}
}

// parseDER reads a key. kind is the label of a PEM block, or Node's name of the
// type: pkcs1, pkcs8, spki, sec1.
func parseDER(der []byte, kind string) (any, error) {
	switch kind {
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(der)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(der)
	case "EC PRIVATE KEY", "sec1":
		return x509.ParseECPrivateKey(der)
	case "PRIVATE KEY", "pkcs8":
		return withPSS(der, x509.ParsePKCS8PrivateKey)
	case "PUBLIC KEY", "spki":
		return withPSS(der, x509.ParsePKIXPublicKey)
	case "CERTIFICATE":
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, err
		}
		return cert.PublicKey, nil
	case "pkcs1":
		if key, err := x509.ParsePKCS1PrivateKey(der); err == nil {
			return key, nil
		}
		return x509.ParsePKCS1PublicKey(der)
	}
	return nil, errKey
}

func publicOf(key any) (any, bool) {
	signer, ok := key.(interface{ Public() crypto.PublicKey })
	if !ok {
		return nil, false
	}
	return signer.Public(), true
}

// describeKey makes the object that represents a key in the prelude.
func (c *State) describeKey(key any) goja.Value {
	o := c.VM.NewObject()
	if pss, ok := key.(pssKey); ok {
		o = c.describeKey(pss.any).(*goja.Object)
		c.Set(o, "kind", "rsa-pss")
		return o
	}
	var der []byte
	var err error
	public, private := publicOf(key)
	if private {
		c.Set(o, "type", "private")
		der, err = x509.MarshalPKCS8PrivateKey(key)
	} else {
		c.Set(o, "type", "public")
		public = key
		der, err = x509.MarshalPKIXPublicKey(key)
	}
	c.checkKey(err == nil)
	c.Set(o, "der", c.Buffer(der))
	switch k := public.(type) {
	case *rsa.PublicKey:
		c.Set(o, "kind", "rsa")
		c.Set(o, "bits", k.N.BitLen())
		c.Set(o, "exponent", k.E)
	case *ecdsa.PublicKey:
		c.Set(o, "kind", "ec")
		c.Set(o, "curve", c.curve(k.Curve.Params().Name).names[0])
	case ed25519.PublicKey:
		c.Set(o, "kind", "ed25519")
	case *ecdh.PublicKey:
		c.Set(o, "kind", "x25519")
	}
	return o
}

// namedCurve is a curve with its names in OpenSSL, which writes the first one,
// and in WebCrypto.
type namedCurve struct {
	names []string
	elliptic.Curve
	plain ecdh.Curve // for plain ECDH; nil without one
}

var curves = []namedCurve{
	{[]string{"secp224r1", "P-224"}, elliptic.P224(), nil},
	{[]string{"prime256v1", "secp256r1", "P-256"}, elliptic.P256(), ecdh.P256()},
	{[]string{"secp384r1", "P-384"}, elliptic.P384(), ecdh.P384()},
	{[]string{"secp521r1", "P-521"}, elliptic.P521(), ecdh.P521()},
}

// curve returns a curve by one of its names, or throws.
func (c *State) curve(name string) namedCurve {
	i := slices.IndexFunc(curves, func(known namedCurve) bool { return slices.Contains(known.names, name) })
	c.Check(i >= 0, "TypeError", "ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name")
	return curves[i]
}

// keyParse takes bytes of PEM or DER, and for DER the type.
func (c *State) keyParse(args []goja.Value) goja.Value {
	data := c.BytesOf(native.Arg(args, 0))
	var key any
	var err error
	if goja.IsUndefined(native.Arg(args, 1)) {
		key, err = parsePEM(data)
	} else {
		key, err = parseDER(data, native.Arg(args, 1).String())
	}
	c.checkKey(err == nil)
	return c.describeKey(key)
}

// key reads a key that the prelude holds.
func (c *State) key(v goja.Value) any {
	der := c.BytesOf(v)
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key
	}
	key, err := x509.ParsePKIXPublicKey(der)
	c.checkKey(err == nil)
	return key
}

// keyPublic returns the public half of a private key.
func (c *State) keyPublic(args []goja.Value) goja.Value {
	public, ok := publicOf(c.key(native.Arg(args, 0)))
	c.checkKey(ok)
	return c.describeKey(public)
}

// keyExport takes a key, the format (pem, der), the type (pkcs1, ...), and
// whether it is only for PSS.
func (c *State) keyExport(args []goja.Value) goja.Value {
	key := c.key(native.Arg(args, 0))
	der, label, err := marshalKey(key, native.Arg(args, 2).String())
	c.Check(err == nil, "Error", "ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS", "The selected key encoding does not match the key")
	if native.Arg(args, 3).ToBoolean() {
		der, _ = renamed(der, rsaName, pssName)
	}
	if native.Arg(args, 1).String() == "der" {
		return c.Buffer(der)
	}
	return c.VM.ToValue(string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})))
}

func marshalKey(key any, kind string) (der []byte, label string, err error) {
	switch k := key.(type) {
	case *rsa.PrivateKey:
		if kind == "pkcs1" {
			return x509.MarshalPKCS1PrivateKey(k), "RSA PRIVATE KEY", nil
		}
	case *ecdsa.PrivateKey:
		if kind == "sec1" {
			der, err = x509.MarshalECPrivateKey(k)
			return der, "EC PRIVATE KEY", err
		}
	case *rsa.PublicKey:
		if kind == "pkcs1" {
			return x509.MarshalPKCS1PublicKey(k), "RSA PUBLIC KEY", nil
		}
	}
	_, private := publicOf(key)
	switch {
	case private && kind == "pkcs8":
		der, err = x509.MarshalPKCS8PrivateKey(key)
		return der, "PRIVATE KEY", err
	case !private && kind == "spki":
		der, err = x509.MarshalPKIXPublicKey(key)
		return der, "PUBLIC KEY", err
	}
	return nil, "", errKey
}

// keyGenerate takes the kind, and bits for RSA or the curve for EC.
func (c *State) keyGenerate(args []goja.Value) goja.Value {
	var key any
	var err error
	switch native.Arg(args, 0).String() {
	case "rsa":
		bits := native.Arg(args, 1).ToInteger()
		c.Check(bits >= 512 && bits <= 8192, "RangeError", "ERR_OUT_OF_RANGE", `The value of "options.modulusLength" is out of range`)
		key, err = rsa.GenerateKey(rand.Reader, int(bits))
	case "ec":
		key, err = ecdsa.GenerateKey(c.curve(native.Arg(args, 1).String()).Curve, rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "x25519":
		key, err = ecdh.X25519().GenerateKey(rand.Reader)
	default:
		err = errKey
	}
	c.Check(err == nil, "TypeError", "ERR_INVALID_ARG_VALUE", "The argument 'type' must be a supported key type")
	return c.describeKey(key)
}
