package crypto

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"slices"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// jwk is a JSON Web Key (RFC 7517) of the kinds that the prelude supports.
type jwk struct {
	Kty string `json:"kty"`
	N   string `json:"n,omitempty"`
	E   string `json:"e,omitempty"`
	X   string `json:"x,omitempty"`
	Y   string `json:"y,omitempty"`
	Crv string `json:"crv,omitempty"`
	D   string `json:"d,omitempty"`
	P   string `json:"p,omitempty"`
	Q   string `json:"q,omitempty"`
	DP  string `json:"dp,omitempty"`
	DQ  string `json:"dq,omitempty"`
	QI  string `json:"qi,omitempty"`
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// number reads a number of a JWK. A malformed one becomes zero, which no key
// accepts.
func number(s string) *big.Int { return new(big.Int).SetBytes(native.DecodeBase64(s)) }

// keyToJWK returns a key as a JWK object.
func (c *State) keyToJWK(args []goja.Value) goja.Value {
	out, err := toJWK(c.key(native.Arg(args, 0)))
	c.Check(err == nil, "Error", "ERR_CRYPTO_JWK_UNSUPPORTED_KEY_TYPE", "Unsupported JWK Key Type.")
	text, err := json.Marshal(out)
	c.checkKey(err == nil)
	v, err := native.BuildJSON(c.VM, text)
	c.checkKey(err == nil)
	return v
}

func toJWK(key any) (*jwk, error) {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return &jwk{Kty: "RSA", N: b64(k.N.Bytes()), E: b64(big.NewInt(int64(k.E)).Bytes())}, nil
	case *rsa.PrivateKey:
		out, _ := toJWK(&k.PublicKey)
		k.Precompute()
		out.D, out.P, out.Q = b64(k.D.Bytes()), b64(k.Primes[0].Bytes()), b64(k.Primes[1].Bytes())
		out.DP, out.DQ, out.QI = b64(k.Precomputed.Dp.Bytes()), b64(k.Precomputed.Dq.Bytes()), b64(k.Precomputed.Qinv.Bytes())
		return out, nil
	case *ecdsa.PublicKey:
		point, err := k.Bytes()
		if err != nil {
			return nil, err
		}
		half := (len(point) - 1) / 2
		return &jwk{Kty: "EC", Crv: k.Curve.Params().Name, X: b64(point[1 : 1+half]), Y: b64(point[1+half:])}, nil
	case *ecdsa.PrivateKey:
		out, err := toJWK(&k.PublicKey)
		if err != nil {
			return nil, err
		}
		secret, err := k.Bytes()
		out.D = b64(secret)
		return out, err
	case ed25519.PublicKey:
		return &jwk{Kty: "OKP", Crv: "Ed25519", X: b64(k)}, nil
	case ed25519.PrivateKey:
		return &jwk{Kty: "OKP", Crv: "Ed25519", X: b64(k[32:]), D: b64(k.Seed())}, nil
	case *ecdh.PublicKey:
		return &jwk{Kty: "OKP", Crv: "X25519", X: b64(k.Bytes())}, nil
	case *ecdh.PrivateKey:
		return &jwk{Kty: "OKP", Crv: "X25519", X: b64(k.PublicKey().Bytes()), D: b64(k.Bytes())}, nil
	}
	return nil, errKey
}

// keyFromJWK takes the JSON text of a JWK.
func (c *State) keyFromJWK(args []goja.Value) goja.Value {
	var in jwk
	err := json.Unmarshal([]byte(native.Arg(args, 0).String()), &in)
	c.Check(err == nil, "Error", "ERR_CRYPTO_INVALID_JWK", "Invalid JWK data")
	key, err := c.fromJWK(&in)
	c.Check(err == nil, "Error", "ERR_CRYPTO_INVALID_JWK", "Invalid JWK data")
	return c.describeKey(key)
}

func (c *State) fromJWK(in *jwk) (any, error) {
	switch in.Kty {
	case "RSA":
		return rsaFromJWK(in)
	case "EC":
		return ecFromJWK(c.curve(in.Crv).Curve, in)
	case "OKP":
		return okpFromJWK(in)
	}
	return nil, errKey
}

// ecFromJWK reads a key on a curve. Its numbers must have the length of the
// curve, and a private key must include the public one.
func ecFromJWK(curve elliptic.Curve, in *jwk) (any, error) {
	x, y, d := native.DecodeBase64(in.X), native.DecodeBase64(in.Y), native.DecodeBase64(in.D)
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size || in.D != "" && len(d) != size {
		return nil, errKey
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	if err != nil || in.D == "" {
		return public, err
	}
	private, err := ecdsa.ParseRawPrivateKey(curve, d)
	if err != nil {
		return nil, err
	}
	if !private.PublicKey.Equal(public) {
		return nil, errKey
	}
	return private, nil
}

func rsaFromJWK(in *jwk) (any, error) {
	e := number(in.E)
	if !e.IsInt64() || e.Int64() > 1<<31-1 {
		return nil, errKey
	}
	public := rsa.PublicKey{N: number(in.N), E: int(e.Int64())}
	if in.D == "" {
		if public.N.BitLen() < 512 || public.E < 2 {
			return nil, errKey
		}
		return &public, nil
	}
	key := &rsa.PrivateKey{PublicKey: public, D: number(in.D), Primes: []*big.Int{number(in.P), number(in.Q)}}
	if err := key.Validate(); err != nil {
		return nil, err
	}
	key.Precompute()
	for text, want := range map[string]*big.Int{in.DP: key.Precomputed.Dp, in.DQ: key.Precomputed.Dq, in.QI: key.Precomputed.Qinv} {
		if text == "" || number(text).Cmp(want) != 0 {
			return nil, errKey
		}
	}
	return key, nil
}

func okpFromJWK(in *jwk) (any, error) {
	x, d := native.DecodeBase64(in.X), native.DecodeBase64(in.D)
	if len(x) != ed25519.PublicKeySize || in.D != "" && len(d) != ed25519.SeedSize {
		return nil, errKey
	}
	var key any
	var public []byte
	switch {
	case in.Crv == "Ed25519" && in.D == "":
		return ed25519.PublicKey(x), nil
	case in.Crv == "X25519" && in.D == "":
		return ecdh.X25519().NewPublicKey(x)
	case in.Crv == "Ed25519":
		private := ed25519.NewKeyFromSeed(d)
		key, public = private, private[ed25519.SeedSize:]
	case in.Crv == "X25519":
		private, err := ecdh.X25519().NewPrivateKey(d)
		if err != nil {
			return nil, err
		}
		key, public = private, private.PublicKey().Bytes()
	}
	if !bytes.Equal(public, x) {
		return nil, errKey
	}
	return key, nil
}

// ecdhCurve returns the named curve for plain ECDH.
func (c *State) ecdhCurve(args []goja.Value) namedCurve {
	curve := c.curve(native.Arg(args, 0).String())
	c.Check(curve.plain != nil, "TypeError", "ERR_CRYPTO_INVALID_CURVE", "Invalid EC curve name")
	return curve
}

// ecdhNew returns a new private key on a curve.
func (c *State) ecdhNew(args []goja.Value) goja.Value {
	key, err := c.ecdhCurve(args).plain.GenerateKey(rand.Reader)
	c.checkOperation(err == nil, "the key could not be created")
	return c.Buffer(key.Bytes())
}

func (c *State) ecdhKey(args []goja.Value) *ecdh.PrivateKey {
	curve := c.ecdhCurve(args)
	raw := new(big.Int).SetBytes(c.BytesOf(native.Arg(args, 1)))
	size := (curve.Params().BitSize + 7) / 8
	if raw.BitLen() <= 8*size {
		if key, err := curve.plain.NewPrivateKey(raw.FillBytes(make([]byte, size))); err == nil {
			return key
		}
	}
	panic(c.NewError("Error", "ERR_CRYPTO_INVALID_KEYTYPE", "Private key is not valid for specified curve."))
}

// ecdhPublic takes curve, private key, and whether to compress.
func (c *State) ecdhPublic(args []goja.Value) goja.Value {
	point := c.ecdhKey(args).PublicKey().Bytes()
	if native.Arg(args, 2).ToBoolean() {
		half := (len(point) - 1) / 2
		return c.Buffer(append([]byte{2 + point[len(point)-1]&1}, point[1:1+half]...))
	}
	return c.Buffer(point)
}

// ecdhSecret takes curve, private key, and the other side's public key.
func (c *State) ecdhSecret(args []goja.Value) goja.Value {
	point := c.BytesOf(native.Arg(args, 2))
	if len(point) > 0 && point[0] != 4 {
		curve := c.curve(native.Arg(args, 0).String()).Curve
		// The standard library has no other way to read a compressed point.
		if x, y := elliptic.UnmarshalCompressed(curve, point); x != nil {
			size := (curve.Params().BitSize + 7) / 8
			point = append([]byte{4}, append(x.FillBytes(make([]byte, size)), y.FillBytes(make([]byte, size))...)...)
		}
	}
	key := c.ecdhKey(args)
	if other, err := key.Curve().NewPublicKey(point); err == nil {
		if secret, err := key.ECDH(other); err == nil {
			return c.Buffer(secret)
		}
	}
	panic(c.NewError("Error", "ERR_CRYPTO_ECDH_INVALID_PUBLIC_KEY", "Public key is not valid for specified curve"))
}
