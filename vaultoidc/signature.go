package vaultoidc

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	_ "crypto/sha256" // of hashes
	_ "crypto/sha512" // of hashes
	"math/big"
)

// hashes are the hash functions of algorithms by their last three digits.
var hashes = map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}

// signedBy reports whether the signature of a JWT is by a key. The caller has checked
// that the type of the key permits the algorithm.
//
// go-jose verifies signatures too, but it first reads the members jwk and x5c of the
// header, which the vault ignores, and refuses a JWT if it cannot read them.
func (t *token) signedBy(public crypto.PublicKey) bool {
	if key, ok := public.(ed25519.PublicKey); ok {
		return len(key) == ed25519.PublicKeySize && ed25519.Verify(key, t.signed, t.signature)
	}
	hash, ok := hashes[t.algorithm[max(0, len(t.algorithm)-3):]]
	if !ok {
		return false
	}
	h := hash.New()
	_, _ = h.Write(t.signed) // a hash never fails
	sum := h.Sum(nil)
	switch key := public.(type) {
	case *rsa.PublicKey:
		if t.algorithm[0] == 'P' {
			return rsa.VerifyPSS(key, hash, sum, t.signature, nil) == nil
		}
		return rsa.VerifyPKCS1v15(key, hash, sum, t.signature) == nil
	case *ecdsa.PublicKey:
		size := (key.Curve.Params().BitSize + 7) / 8 // of each half (RFC 7518)
		if len(t.signature) != 2*size {
			return false
		}
		r, s := new(big.Int).SetBytes(t.signature[:size]), new(big.Int).SetBytes(t.signature[size:])
		return ecdsa.Verify(key, sum, r, s)
	default:
		return false
	}
}
