package crypto

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/subtle"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
)

// The standard library interprets a salt length of 0 as "any". This is RSA-PSS
// (RFC 8017, 9.1) without a salt, where a digest has only one encoding.

// pssEncoding encodes a digest, or returns nil if the key is too small for it.
func pssEncoding(key *rsa.PublicKey, h crypto.Hash, digest []byte) []byte {
	bits := key.N.BitLen() - 1
	size := (bits + 7) / 8
	if size < len(digest)+2 {
		return nil
	}
	state := h.New()
	state.Write(make([]byte, 8))
	state.Write(digest)
	sum := state.Sum(nil)
	out := make([]byte, size)
	block := out[:size-len(sum)-1]
	block[len(block)-1] = 1
	mask := maskOf(h, sum, len(block))
	subtle.XORBytes(block, block, mask)
	block[0] &= 0xff >> (8*size - bits)
	copy(out[len(block):], sum)
	out[size-1] = 0xbc
	return out
}

// maskOf is the mask generation function MGF1.
func maskOf(h crypto.Hash, seed []byte, n int) []byte {
	var out []byte
	for i := uint32(0); len(out) < n; i++ {
		state := h.New()
		state.Write(seed)
		state.Write(binary.BigEndian.AppendUint32(nil, i))
		out = state.Sum(out)
	}
	return out[:n]
}

// signPSS signs a digest without a salt. A random factor protects the key
// against timing attacks.
func signPSS(key *rsa.PrivateKey, h crypto.Hash, digest []byte) ([]byte, error) {
	encoded := pssEncoding(&key.PublicKey, h, digest)
	if encoded == nil {
		return nil, errKey
	}
	factor, err := rand.Int(rand.Reader, key.N)
	if err != nil {
		return nil, err
	}
	inverse := new(big.Int).ModInverse(factor, key.N)
	if inverse == nil {
		return nil, errKey
	}
	e := big.NewInt(int64(key.E))
	blinded := new(big.Int).Exp(factor, e, key.N)
	blinded.Mul(blinded, new(big.Int).SetBytes(encoded)).Mod(blinded, key.N)
	signed := new(big.Int).Exp(blinded, key.D, key.N)
	signed.Mul(signed, inverse).Mod(signed, key.N)
	out := signed.FillBytes(make([]byte, key.Size()))
	if !verifyPSS(&key.PublicKey, h, digest, out) {
		return nil, errKey
	}
	return out, nil
}

// verifyPSS reports whether sig is a signature of the digest without a salt.
func verifyPSS(key *rsa.PublicKey, h crypto.Hash, digest, sig []byte) bool {
	encoded := pssEncoding(key, h, digest)
	s := new(big.Int).SetBytes(sig)
	if encoded == nil || len(sig) != key.Size() || s.Cmp(key.N) >= 0 {
		return false
	}
	opened := s.Exp(s, big.NewInt(int64(key.E)), key.N)
	return opened.Cmp(new(big.Int).SetBytes(encoded)) == 0
}

// RSA keys that are only for PSS. Go reads general RSA keys, so the keys are
// converted at the boundary. Only the name of the algorithm differs.

var (
	oidRSA = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 1}
	oidPSS = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}
)

type publicInfo struct {
	Algorithm pkix.AlgorithmIdentifier
	Key       asn1.BitString
}

type privateInfo struct {
	Version   int
	Algorithm pkix.AlgorithmIdentifier
	Key       []byte
}

// renamed returns a key with another algorithm name, if it has the name from.
func renamed(der []byte, from, to pkix.AlgorithmIdentifier) ([]byte, bool) {
	var public publicInfo
	if _, err := asn1.Unmarshal(der, &public); err == nil && public.Algorithm.Algorithm.Equal(from.Algorithm) {
		public.Algorithm = to
		out, err := asn1.Marshal(public)
		return out, err == nil
	}
	var private privateInfo
	if _, err := asn1.Unmarshal(der, &private); err == nil && private.Algorithm.Algorithm.Equal(from.Algorithm) {
		private.Algorithm = to
		out, err := asn1.Marshal(private)
		return out, err == nil
	}
	return nil, false
}

var (
	rsaName = pkix.AlgorithmIdentifier{Algorithm: oidRSA, Parameters: asn1.NullRawValue}
	pssName = pkix.AlgorithmIdentifier{Algorithm: oidPSS}
)

// pssKey marks a key for PSS.
type pssKey struct{ any }

// withPSS reads a key that may be only for PSS, with a parser that does not
// support those.
func withPSS(der []byte, parse func([]byte) (any, error)) (any, error) {
	if plain, ok := renamed(der, pssName, rsaName); ok {
		key, err := parse(plain)
		return pssKey{key}, err
	}
	return parse(der)
}
