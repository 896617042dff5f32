package crypto

import (
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"encoding/asn1"
	"math/big"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// Paddings of RSA, by their numbers in OpenSSL.
const (
	paddingPKCS1 = 1
	paddingNone  = 3
	paddingOAEP  = 4
	paddingPSS   = 6
)

// PSS salt lengths that stand for a rule.
const (
	saltDigest = -1
	saltMax    = -2
)

// checkOperation throws an error that is clearer than OpenSSL's unless ok.
func (c *State) checkOperation(ok bool, text string) {
	c.Check(ok, "Error", "ERR_CRYPTO_OPERATION_FAILED", text)
}

// hashed returns the digest of data and its hash function.
func (c *State) hashed(name string, data []byte) (crypto.Hash, []byte) {
	h := c.digest("Error", name)
	state := h.New()
	state.Write(data)
	return h, state.Sum(nil)
}

// keySign takes key, digest, data, padding, salt length, and whether an ECDSA
// signature is a plain pair of numbers.
func (c *State) keySign(args []goja.Value) goja.Value {
	data := c.BytesOf(native.Arg(args, 2))
	var out []byte
	var err error
	switch key := c.key(native.Arg(args, 0)).(type) {
	case ed25519.PrivateKey:
		out = ed25519.Sign(key, data)
	case *rsa.PrivateKey:
		h, sum := c.hashed(native.Arg(args, 1).String(), data)
		switch {
		case native.Arg(args, 3).ToInteger() != paddingPSS:
			out, err = rsa.SignPKCS1v15(nil, key, h, sum)
		case isZero(native.Arg(args, 4)):
			out, err = signPSS(key, h, sum)
		default:
			out, err = rsa.SignPSS(rand.Reader, key, h, sum, &rsa.PSSOptions{SaltLength: saltLength(native.Arg(args, 4), h, &key.PublicKey, true)})
		}
		c.checkOperation(err == nil, "the key cannot sign with this digest")
	case *ecdsa.PrivateKey:
		_, sum := c.hashed(native.Arg(args, 1).String(), data)
		out, err = ecdsa.SignASN1(rand.Reader, key, sum)
		if err == nil && native.Arg(args, 5).ToBoolean() {
			out, err = plainSignature(out, key.Curve)
		}
	default:
		err = errKey
	}
	c.checkOperation(err == nil, "the key cannot sign")
	return c.Buffer(out)
}

// isZero reports whether a salt must be empty.
func isZero(v goja.Value) bool { return !goja.IsUndefined(v) && !goja.IsNull(v) && v.ToInteger() == 0 }

// saltLength converts Node's salt length to Go's, unless it is 0. Node's
// default is the largest when signing, and any when verifying.
func saltLength(v goja.Value, h crypto.Hash, key *rsa.PublicKey, sign bool) int {
	if !goja.IsUndefined(v) {
		switch n := int(v.ToInteger()); {
		case n > 0:
			return n
		case n == saltDigest:
			return rsa.PSSSaltLengthEqualsHash
		}
	}
	if !sign {
		return rsa.PSSSaltLengthAuto
	}
	return (key.N.BitLen()-1+7)/8 - 2 - h.Size()
}

type ecSignature struct{ R, S *big.Int }

// plainSignature converts a DER signature to two concatenated numbers.
func plainSignature(der []byte, curve elliptic.Curve) ([]byte, error) {
	var sig ecSignature
	if _, err := asn1.Unmarshal(der, &sig); err != nil {
		return nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	out := make([]byte, 2*size)
	sig.R.FillBytes(out[:size])
	sig.S.FillBytes(out[size:])
	return out, nil
}

// keyVerify takes key, digest, data, signature, padding, salt length, and
// whether an ECDSA signature is a plain pair.
func (c *State) keyVerify(args []goja.Value) goja.Value {
	data, sig := c.BytesOf(native.Arg(args, 2)), c.BytesOf(native.Arg(args, 3))
	valid := false
	switch key := c.publicKey(native.Arg(args, 0)).(type) {
	case ed25519.PublicKey:
		valid = ed25519.Verify(key, data, sig)
	case *rsa.PublicKey:
		h, sum := c.hashed(native.Arg(args, 1).String(), data)
		switch {
		case native.Arg(args, 4).ToInteger() != paddingPSS:
			valid = rsa.VerifyPKCS1v15(key, h, sum, sig) == nil
		case isZero(native.Arg(args, 5)):
			valid = verifyPSS(key, h, sum, sig)
		default:
			options := &rsa.PSSOptions{SaltLength: saltLength(native.Arg(args, 5), h, key, false)}
			valid = rsa.VerifyPSS(key, h, sum, sig, options) == nil
		}
	case *ecdsa.PublicKey:
		_, sum := c.hashed(native.Arg(args, 1).String(), data)
		if native.Arg(args, 6).ToBoolean() {
			half := (key.Curve.Params().BitSize + 7) / 8
			if len(sig) != 2*half {
				break
			}
			sig, _ = asn1.Marshal(ecSignature{new(big.Int).SetBytes(sig[:half]), new(big.Int).SetBytes(sig[half:])})
		}
		valid = ecdsa.VerifyASN1(key, sum, sig)
	default:
		c.checkOperation(false, "the key cannot verify")
	}
	return c.VM.ToValue(valid)
}

// publicKey returns a public key, which may be given as the private one.
func (c *State) publicKey(v goja.Value) any {
	key := c.key(v)
	if public, ok := publicOf(key); ok {
		return public
	}
	return key
}

// rsaPublic returns the public RSA key of a key.
func (c *State) rsaPublic(v goja.Value) *rsa.PublicKey {
	k, ok := c.publicKey(v).(*rsa.PublicKey)
	c.checkOperation(ok, "operation not supported for this keytype")
	return k
}

func (c *State) rsaPrivate(v goja.Value) *rsa.PrivateKey {
	k, ok := c.key(v).(*rsa.PrivateKey)
	c.checkOperation(ok, "operation not supported for this keytype")
	return k
}

// keyEncrypt takes key, data, padding, the digest and label of OAEP, and
// whether to use the private key (privateEncrypt).
func (c *State) keyEncrypt(args []goja.Value) goja.Value {
	data := c.BytesOf(native.Arg(args, 1))
	var out []byte
	var err error
	if native.Arg(args, 5).ToBoolean() {
		out, err = rsa.SignPKCS1v15(nil, c.rsaPrivate(native.Arg(args, 0)), 0, data)
	} else {
		key := c.rsaPublic(native.Arg(args, 0))
		switch native.Arg(args, 2).ToInteger() {
		case paddingPKCS1:
			out, err = rsa.EncryptPKCS1v15(rand.Reader, key, data) //nolint:staticcheck // Node offers it, and the code requested it
		case paddingOAEP:
			out, err = rsa.EncryptOAEP(c.digest("TypeError", native.Arg(args, 3).String()).New(), rand.Reader, key, data, c.BytesOf(native.Arg(args, 4)))
		case paddingNone:
			out, err = rawRSA(key, data)
		default:
			panic(c.NewError("TypeError", "ERR_INVALID_ARG_VALUE", "the padding is not supported"))
		}
	}
	c.Check(err == nil, "Error", "ERR_OSSL_RSA_DATA_TOO_LARGE_FOR_KEY_SIZE", "error:0409A06E:rsa routines:RSA_padding_add_PKCS1_OAEP_mgf1:data too large for key size")
	return c.Buffer(out)
}

// rawRSA is RSA without padding, which some terminals of payment networks
// require.
func rawRSA(key *rsa.PublicKey, data []byte) ([]byte, error) {
	m := new(big.Int).SetBytes(data)
	if m.Cmp(key.N) >= 0 || len(data) != key.Size() {
		return nil, errKey
	}
	return new(big.Int).Exp(m, big.NewInt(int64(key.E)), key.N).FillBytes(make([]byte, key.Size())), nil
}

// keyDecrypt takes the same arguments as keyEncrypt. The last means that the
// public key decrypts the data (publicDecrypt).
func (c *State) keyDecrypt(args []goja.Value) goja.Value {
	data := c.BytesOf(native.Arg(args, 1))
	var out []byte
	var err error
	if native.Arg(args, 5).ToBoolean() {
		out, err = openPublic(c.rsaPublic(native.Arg(args, 0)), data)
	} else {
		key := c.rsaPrivate(native.Arg(args, 0))
		switch native.Arg(args, 2).ToInteger() {
		case paddingPKCS1:
			out, err = rsa.DecryptPKCS1v15(nil, key, data) //nolint:staticcheck // Node offers it, and the code requested it
		case paddingOAEP:
			out, err = rsa.DecryptOAEP(c.digest("TypeError", native.Arg(args, 3).String()).New(), nil, key, data, c.BytesOf(native.Arg(args, 4)))
		default:
			panic(c.NewError("TypeError", "ERR_INVALID_ARG_VALUE", "the padding is not supported"))
		}
	}
	c.Check(err == nil, "Error", "ERR_OSSL_RSA_OAEP_DECODING_ERROR", "error:04099079:rsa routines:RSA_padding_check_PKCS1_OAEP_mgf1:oaep decoding error")
	return c.Buffer(out)
}

// openPublic reverses privateEncrypt: it applies RSA with the public key and
// removes the padding of a signature.
func openPublic(key *rsa.PublicKey, data []byte) ([]byte, error) {
	if len(data) != key.Size() {
		return nil, errKey
	}
	m := new(big.Int).Exp(new(big.Int).SetBytes(data), big.NewInt(int64(key.E)), key.N).FillBytes(make([]byte, key.Size()))
	if subtle.ConstantTimeCompare(m[:2], []byte{0, 1}) != 1 {
		return nil, errKey
	}
	for i := 2; i < len(m); i++ {
		if m[i] == 0 {
			return m[i+1:], nil
		}
		if m[i] != 0xff {
			break
		}
	}
	return nil, errKey
}

// keyAgree returns the shared secret of a private and a public key.
func (c *State) keyAgree(args []goja.Value) goja.Value {
	private, public := c.key(native.Arg(args, 0)), c.key(native.Arg(args, 1))
	if k, ok := private.(*ecdsa.PrivateKey); ok {
		private, _ = k.ECDH()
	}
	if k, ok := public.(*ecdsa.PublicKey); ok {
		public, _ = k.ECDH()
	}
	a, ok := private.(*ecdh.PrivateKey)
	b, ok2 := public.(*ecdh.PublicKey)
	c.checkOperation(ok && ok2, "the keys do not match")
	secret, err := a.ECDH(b)
	c.checkOperation(err == nil, "the keys do not match")
	return c.Buffer(secret)
}
