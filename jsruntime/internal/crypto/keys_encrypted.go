package crypto

import (
	"crypto"
	"crypto/cipher"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"

	"github.com/dop251/goja"
	"golang.org/x/crypto/scrypt"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// Private keys protected by a passphrase: PKCS #8 with PBES2, which Node and
// OpenSSL write, and the older form with headers in the PEM text.

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
	oidScrypt = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 11591, 4, 11}
	oidSHA256 = asn1.ObjectIdentifier{1, 2, 840, 113549, 2, 9}
)

// keyDigests are the hashes of PBKDF2's HMAC.
var keyDigests = map[string]crypto.Hash{
	"": crypto.SHA1, "1.2.840.113549.2.7": crypto.SHA1, oidSHA256.String(): crypto.SHA256,
	"1.2.840.113549.2.10": crypto.SHA384, "1.2.840.113549.2.11": crypto.SHA512,
}

// keyCiphers are the ciphers of keys in cipherKinds, all in CBC mode.
var keyCiphers = map[string]asn1.ObjectIdentifier{
	"aes-128-cbc":  {2, 16, 840, 1, 101, 3, 4, 1, 2},
	"aes-192-cbc":  {2, 16, 840, 1, 101, 3, 4, 1, 22},
	"aes-256-cbc":  {2, 16, 840, 1, 101, 3, 4, 1, 42},
	"des-ede3-cbc": {1, 2, 840, 113549, 3, 7},
}

type encryptedKey struct {
	Algorithm struct {
		OID    asn1.ObjectIdentifier
		Params struct{ KDF, Cipher pkix.AlgorithmIdentifier }
	}
	Data []byte
}

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	Length     int                      `asn1:"optional"`
	Digest     pkix.AlgorithmIdentifier `asn1:"optional"`
}

type scryptParams struct {
	Salt    []byte
	N, R, P int
	Length  int `asn1:"optional"`
}

// maxKeyIterations limits the cost of reading a key.
const maxKeyIterations = 10_000_000

// derive returns the key for a passphrase.
func derive(kdf pkix.AlgorithmIdentifier, passphrase []byte, size int) ([]byte, error) {
	switch {
	case kdf.Algorithm.Equal(oidPBKDF2):
		var p pbkdf2Params
		if _, err := asn1.Unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		digest := ""
		if p.Digest.Algorithm != nil {
			digest = p.Digest.Algorithm.String()
		}
		if keyDigests[digest] == 0 || p.Iterations < 1 || p.Iterations > maxKeyIterations {
			return nil, errKey
		}
		return pbkdf2.Key(keyDigests[digest].New, string(passphrase), p.Salt, p.Iterations, size)
	case kdf.Algorithm.Equal(oidScrypt):
		var p scryptParams
		if _, err := asn1.Unmarshal(kdf.Parameters.FullBytes, &p); err != nil {
			return nil, err
		}
		if p.N > 1<<20 || p.R > 64 || p.P > 64 || p.N*p.R > 1<<18 {
			return nil, errKey
		}
		return scrypt.Key(passphrase, p.Salt, p.N, p.R, p.P, size)
	}
	return nil, errKey
}

// openKey decrypts PKCS #8.
func openKey(der, passphrase []byte) ([]byte, error) {
	var k encryptedKey
	if _, err := asn1.Unmarshal(der, &k); err != nil || !k.Algorithm.OID.Equal(oidPBES2) {
		return nil, errKey
	}
	for name, oid := range keyCiphers {
		params, kind := k.Algorithm.Params, cipherKinds[name]
		if !oid.Equal(params.Cipher.Algorithm) {
			continue
		}
		key, err := derive(params.KDF, passphrase, kind.key)
		if err != nil {
			return nil, err
		}
		block, err := kind.block(key)
		iv := params.Cipher.Parameters.Bytes
		if err != nil || len(iv) != kind.iv || len(k.Data) == 0 || len(k.Data)%kind.iv != 0 {
			return nil, errKey
		}
		cipher.NewCBCDecrypter(block, iv).CryptBlocks(k.Data, k.Data)
		if plain, ok := unpad(k.Data, kind.iv); ok {
			return plain, nil
		}
	}
	return nil, errKey
}

// sealKey encrypts PKCS #8, as Node does.
func sealKey(der, passphrase []byte, name string) ([]byte, error) {
	oid, ok := keyCiphers[strings.ToLower(name)]
	if !ok {
		return nil, errKey
	}
	kind := cipherKinds[strings.ToLower(name)]
	p := pbkdf2Params{Salt: make([]byte, 16), Iterations: 2048, Digest: pkix.AlgorithmIdentifier{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}}
	_, _ = rand.Read(p.Salt)
	key, err := pbkdf2.Key(crypto.SHA256.New, string(passphrase), p.Salt, p.Iterations, kind.key)
	if err != nil {
		return nil, err
	}
	block, err := kind.block(key)
	if err != nil {
		return nil, err
	}
	iv := make([]byte, kind.iv)
	_, _ = rand.Read(iv)
	data := pad(der, kind.iv)
	cipher.NewCBCEncrypter(block, iv).CryptBlocks(data, data)
	params, err := asn1.Marshal(p)
	if err != nil {
		return nil, err
	}
	ivDER, err := asn1.Marshal(iv)
	if err != nil {
		return nil, err
	}
	out := encryptedKey{Data: data}
	out.Algorithm.OID = oidPBES2
	out.Algorithm.Params.KDF = pkix.AlgorithmIdentifier{Algorithm: oidPBKDF2, Parameters: asn1.RawValue{FullBytes: params}}
	out.Algorithm.Params.Cipher = pkix.AlgorithmIdentifier{Algorithm: oid, Parameters: asn1.RawValue{FullBytes: ivDER}}
	return asn1.Marshal(out)
}

// keyOpen takes an encrypted key, as PEM or DER, and the passphrase. It returns
// the decrypted key, as PEM or DER. This is PKCS #8 or, for the older form, a
// key with the same label.
func (c *State) keyOpen(args []goja.Value) goja.Value {
	data, passphrase := c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1))
	label := "PRIVATE KEY"
	block, _ := pem.Decode(data)
	var der []byte
	var err error
	switch {
	case block == nil:
		der, err = openKey(data, passphrase)
	case block.Type == "ENCRYPTED PRIVATE KEY":
		der, err = openKey(block.Bytes, passphrase)
	default:
		label = block.Type
		der, err = x509.DecryptPEMBlock(block, passphrase) //nolint:staticcheck // Node reads such keys, and the code has one
	}
	if err == nil {
		_, err = parseDER(der, label)
	}
	c.Check(err == nil, "Error", "ERR_OSSL_EVP_BAD_DECRYPT", "error:06065064:digital envelope routines:EVP_DecryptFinal_ex:bad decrypt")
	return c.Buffer(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

// keySeal takes a private key, the format (pem, der), the cipher and the
// passphrase.
func (c *State) keySeal(args []goja.Value) goja.Value {
	der, err := x509.MarshalPKCS8PrivateKey(c.key(native.Arg(args, 0)))
	c.checkKey(err == nil)
	der, err = sealKey(der, c.BytesOf(native.Arg(args, 3)), native.Arg(args, 2).String())
	c.Check(err == nil, "Error", "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher")
	if native.Arg(args, 1).String() == "der" {
		return c.Buffer(der)
	}
	return c.VM.ToValue(string(pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der})))
}
