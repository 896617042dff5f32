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

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// keyNatives are the asymmetric half of Node's crypto. A key is passed as DER:
// PKCS #8 for a private key, SubjectPublicKeyInfo for a public one.
var keyNatives = map[string]Native{
	"key.parse":    (*State).keyParse,
	"key.public":   (*State).keyPublic,
	"key.export":   (*State).keyExport,
	"key.jwk":      (*State).keyToJWK,
	"key.fromjwk":  (*State).keyFromJWK,
	"key.generate": (*State).keyGenerate,
	"key.sign":     (*State).keySign,
	"key.verify":   (*State).keyVerify,
	"key.encrypt":  (*State).keyEncrypt,
	"key.decrypt":  (*State).keyDecrypt,
	"key.agree":    (*State).keyAgree,
	"key.open":     (*State).keyOpen,
	"key.seal":     (*State).keySeal,
	"ecdh.new":     (*State).ecdhNew,
	"ecdh.public":  (*State).ecdhPublic,
	"ecdh.secret":  (*State).ecdhSecret,
}

var errKey = errors.New("not a key of a known kind")

// keyError returns the error for key material that cannot be read.
func (c *State) keyError() *goja.Object {
	return c.NewError("Error", "ERR_OSSL_PEM_NO_START_LINE", "error:0909006C:PEM routines:get_name:no start line")
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

// anyDER reads a key in the form that keyNatives pass.
func anyDER(der []byte) (any, error) {
	if key, err := x509.ParsePKCS8PrivateKey(der); err == nil {
		return key, nil
	}
	return x509.ParsePKIXPublicKey(der)
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
	if err != nil {
		panic(c.keyError())
	}
	c.Set(o, "der", c.Buffer(der))
	switch k := public.(type) {
	case *rsa.PublicKey:
		c.Set(o, "kind", "rsa")
		c.Set(o, "bits", k.N.BitLen())
		c.Set(o, "exponent", k.E)
	case *ecdsa.PublicKey:
		c.Set(o, "kind", "ec")
		c.Set(o, "curve", nodeCurve(k.Curve))
	case ed25519.PublicKey:
		c.Set(o, "kind", "ed25519")
	case *ecdh.PublicKey:
		c.Set(o, "kind", "x25519")
	}
	return o
}

// nodeCurve returns OpenSSL's name of a curve.
func nodeCurve(curve elliptic.Curve) string {
	return map[string]string{"P-224": "secp224r1", "P-256": "prime256v1", "P-384": "secp384r1", "P-521": "secp521r1"}[curve.Params().Name]
}

// curveOf returns the curve for a name of OpenSSL or WebCrypto.
func (c *State) curveOf(name string) elliptic.Curve {
	switch name {
	case "P-224", "secp224r1":
		return elliptic.P224()
	case "P-256", "prime256v1", "secp256r1":
		return elliptic.P256()
	case "P-384", "secp384r1":
		return elliptic.P384()
	case "P-521", "secp521r1":
		return elliptic.P521()
	}
	panic(c.NewError("TypeError", "ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name"))
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
	if err != nil {
		panic(c.keyError())
	}
	return c.describeKey(key)
}

// key reads a key that the prelude holds.
func (c *State) key(v goja.Value) any {
	key, err := anyDER(c.BytesOf(v))
	if err != nil {
		panic(c.keyError())
	}
	return key
}

// keyPublic returns the public half of a private key.
func (c *State) keyPublic(args []goja.Value) goja.Value {
	public, ok := publicOf(c.key(native.Arg(args, 0)))
	if !ok {
		panic(c.keyError())
	}
	return c.describeKey(public)
}

// keyExport takes a key, the format (pem, der), the type (pkcs1, ...), and
// whether it is only for PSS.
func (c *State) keyExport(args []goja.Value) goja.Value {
	key := c.key(native.Arg(args, 0))
	der, label, err := marshalKey(key, native.Arg(args, 2).String())
	if err != nil {
		panic(c.NewError("Error", "ERR_CRYPTO_INCOMPATIBLE_KEY_OPTIONS", "The selected key encoding does not match the key"))
	}
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
		if bits < 512 || bits > 8192 {
			panic(c.NewError("RangeError", "ERR_OUT_OF_RANGE", `The value of "options.modulusLength" is out of range`))
		}
		key, err = rsa.GenerateKey(rand.Reader, int(bits))
	case "ec":
		key, err = ecdsa.GenerateKey(c.curveOf(native.Arg(args, 1).String()), rand.Reader)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case "x25519":
		key, err = ecdh.X25519().GenerateKey(rand.Reader)
	default:
		err = errKey
	}
	if err != nil {
		panic(c.NewError("TypeError", "ERR_INVALID_ARG_VALUE", "The argument 'type' must be a supported key type"))
	}
	return c.describeKey(key)
}
