package crypto

import (
	"crypto/x509/pkix"
	"encoding/asn1"
)

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
