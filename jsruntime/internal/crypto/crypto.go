// Package crypto has the functions behind the modules crypto and webcrypto of
// the prelude: digests, ciphers, keys, signatures, key agreement and
// certificates. The prelude, in package node, gives them the interface of Node.
package crypto

import (
	"crypto"
	"crypto/hkdf"
	"crypto/hmac"
	_ "crypto/md5" // the digests register themselves
	"crypto/pbkdf2"
	"crypto/rand"
	_ "crypto/sha1"
	_ "crypto/sha256"
	_ "crypto/sha3"
	_ "crypto/sha512"
	"crypto/subtle"
	"encoding"
	"hash"
	"strings"

	"github.com/dop251/goja"
	_ "golang.org/x/crypto/ripemd160" //nolint:staticcheck // Node has it, and old protocols use it
	"golang.org/x/crypto/scrypt"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// maxRandom limits the result of one call of randomBytes and the derivation
// functions.
const maxRandom = 16 << 20

// maxScryptMemory is the memory limit of scrypt, whatever limit the code sets.
const maxScryptMemory = 64 << 20

// State is the state of the cryptography of one run: the hashes and ciphers in
// use.
type State struct {
	native.Context
	hashes  []hash.Hash
	ciphers []*cipherState
}

// Native is a function that the prelude calls.
type Native func(c *State, args []goja.Value) goja.Value

// Natives are the functions by the names that the prelude uses.
var Natives = map[string]Native{
	// States of hashes and ciphers stay in Go; the code holds their numbers.
	"hash.new": (*State).hashNew,
	"hash.update": func(c *State, args []goja.Value) goja.Value {
		c.hashState(args).Write(c.BytesOf(native.Arg(args, 1)))
		return goja.Undefined()
	},
	"hash.digest": func(c *State, args []goja.Value) goja.Value {
		return c.Buffer(c.hashState(args).Sum(nil))
	},
	"hash.copy": (*State).hashCopy,
	"crypto.random": func(c *State, args []goja.Value) goja.Value {
		b := make([]byte, c.size(native.Arg(args, 0)))
		_, _ = rand.Read(b) // never fails, because the process ends if the system has no randomness
		return c.Buffer(b)
	},
	"crypto.digest": func(c *State, args []goja.Value) goja.Value {
		c.digest("Error", native.Arg(args, 0).String())
		return goja.Undefined()
	},
	"crypto.digest.type": func(c *State, args []goja.Value) goja.Value {
		c.digest("TypeError", native.Arg(args, 0).String())
		return goja.Undefined()
	},
	"crypto.equal": func(c *State, args []goja.Value) goja.Value {
		a, b := c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1))
		c.Check(len(a) == len(b), "RangeError", "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length")
		return c.VM.ToValue(subtle.ConstantTimeCompare(a, b) == 1)
	},
	"crypto.pbkdf2":    (*State).pbkdf2,
	"crypto.scrypt":    (*State).scrypt,
	"crypto.hkdf":      (*State).hkdf,
	"cipher.new":       (*State).cipherNew,
	"cipher.info":      (*State).cipherInfo,
	"cipher.update":    (*State).cipherUpdate,
	"cipher.final":     (*State).cipherFinal,
	"cipher.aad":       (*State).cipherAAD,
	"cipher.tag":       (*State).cipherTag,
	"cipher.settag":    (*State).cipherSetTag,
	"cipher.nopadding": (*State).cipherNoPadding,

	// A key is passed as DER: PKCS #8 for a private key, SubjectPublicKeyInfo for
	// a public one.
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
	"x509.parse":   (*State).certificateParse,
	"x509.check":   (*State).certificateCheck,
	"x509.issued":  (*State).certificateIssued,
	"x509.verify":  (*State).certificateVerify,

	// Diffie-Hellman over integers. Numbers are passed as bytes, most significant
	// first.
	"dh.group":    (*State).dhGroup,
	"dh.prime":    (*State).dhPrime,
	"dh.generate": (*State).dhGenerate,
	"dh.power":    (*State).dhPower,
	"dh.check":    (*State).dhCheck,
}

// digests are the hash functions by their names in Node.
var digests = map[string]crypto.Hash{
	"md5": crypto.MD5, "sha1": crypto.SHA1, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384,
	"sha512": crypto.SHA512, "sha512-224": crypto.SHA512_224, "sha512-256": crypto.SHA512_256, "sha3-224": crypto.SHA3_224,
	"sha3-256": crypto.SHA3_256, "sha3-384": crypto.SHA3_384, "sha3-512": crypto.SHA3_512, "ripemd160": crypto.RIPEMD160,
}

// digestName normalizes the name of a digest for the tables.
func digestName(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(name, "rsa-")
	name = strings.TrimSuffix(name, "withrsaencryption")
	name = strings.TrimSuffix(name, "withrsa")
	if short := strings.Replace(name, "sha-", "sha", 1); digests[short] != 0 {
		return short
	}
	if name == "rmd160" || name == "ripemd" {
		return "ripemd160"
	}
	return strings.ReplaceAll(name, "/", "-")
}

// digest returns a hash function, or throws an error of a class.
func (c *State) digest(class, name string) crypto.Hash {
	h := digests[digestName(name)]
	if h == 0 {
		panic(c.NewError(class, "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+native.Clip(name)))
	}
	return h
}

// hashNew takes the name of a digest and, for an HMAC, the key.
func (c *State) hashNew(args []goja.Value) goja.Value {
	name := native.Arg(args, 0).String()
	if key := native.Arg(args, 1); !goja.IsUndefined(key) {
		c.hashes = append(c.hashes, hmac.New(c.digest("Error", name).New, c.BytesOf(key)))
	} else {
		h := digests[digestName(name)]
		c.Check(h != 0, "Error", "", "Digest method not supported")
		c.hashes = append(c.hashes, h.New())
	}
	return c.VM.ToValue(len(c.hashes) - 1)
}

func (c *State) hashState(args []goja.Value) hash.Hash {
	return c.hashes[int(native.Arg(args, 0).ToInteger())]
}

func (c *State) hashCopy(args []goja.Value) goja.Value {
	state, ok := c.hashState(args).(encoding.BinaryMarshaler)
	f := c.digest("TypeError", native.Arg(args, 1).String()).New()
	into, ok2 := f.(encoding.BinaryUnmarshaler)
	c.Check(ok && ok2, "Error", "ERR_CRYPTO_HASH_FINALIZED", "This digest cannot be copied")
	saved, err := state.MarshalBinary()
	if err == nil {
		err = into.UnmarshalBinary(saved)
	}
	c.Check(err == nil, "Error", "", "This digest cannot be copied")
	c.hashes = append(c.hashes, f)
	return c.VM.ToValue(len(c.hashes) - 1)
}

// size reads a length that the code requests.
func (c *State) size(v goja.Value) int {
	n := v.ToInteger()
	c.Check(n >= 0 && n <= maxRandom, "RangeError", "ERR_OUT_OF_RANGE", "The length is out of range")
	return int(n)
}

// pbkdf2 takes password, salt, iterations, length, digest.
func (c *State) pbkdf2(args []goja.Value) goja.Value {
	iterations := native.Arg(args, 2).ToInteger()
	c.Check(iterations >= 1, "RangeError", "ERR_OUT_OF_RANGE", `The value of "iterations" is out of range`)
	out, err := pbkdf2.Key(c.digest("TypeError", native.Arg(args, 4).String()).New, string(c.BytesOf(native.Arg(args, 0))), c.BytesOf(native.Arg(args, 1)),
		int(iterations), c.size(native.Arg(args, 3)))
	c.Check(err == nil, "Error", "ERR_CRYPTO_PBKDF2_ERROR", "PBKDF2 failed")
	return c.Buffer(out)
}

// scrypt takes password, salt, length, N, r, p and the memory limit.
func (c *State) scrypt(args []goja.Value) goja.Value {
	n, r, p := native.Arg(args, 3).ToInteger(), native.Arg(args, 4).ToInteger(), native.Arg(args, 5).ToInteger()
	limit := min(native.Arg(args, 6).ToInteger(), maxScryptMemory)
	c.Check(n >= 2 && r >= 1 && p >= 1 && r <= 1<<16 && n <= 1<<24 && 128*n*r <= limit, "RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params: memory limit exceeded")
	out, err := scrypt.Key(c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1)), int(n), int(r), int(p), c.size(native.Arg(args, 2)))
	c.Check(err == nil, "RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params")
	return c.Buffer(out)
}

// hkdf takes digest, key, salt, info, length.
func (c *State) hkdf(args []goja.Value) goja.Value {
	out, err := hkdf.Key(c.digest("TypeError", native.Arg(args, 0).String()).New, c.BytesOf(native.Arg(args, 1)), c.BytesOf(native.Arg(args, 2)),
		string(c.BytesOf(native.Arg(args, 3))), c.size(native.Arg(args, 4)))
	c.Check(err == nil, "RangeError", "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length")
	return c.Buffer(out)
}
