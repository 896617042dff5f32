// Package crypto has the functions behind the modules crypto and webcrypto of
// the prelude: digests, ciphers, keys, signatures, key agreement and
// certificates. The prelude, in package node, gives them the interface of Node.
package crypto

import (
	"crypto"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/md5"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"crypto/subtle"
	"encoding"
	"hash"
	"maps"
	"strings"

	"github.com/dop251/goja"
	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // Node has it, and old protocols use it
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

// Natives returns the functions by the names that the prelude uses.
func Natives() map[string]Native {
	all := map[string]Native{}
	for _, part := range []map[string]Native{symmetricNatives, keyNatives, dhNatives, certificateNatives} {
		maps.Copy(all, part)
	}
	return all
}

// symmetricNatives are the symmetric half of Node's crypto. States of hashes
// and ciphers stay in Go; the code holds their numbers.
var symmetricNatives = map[string]Native{
	"hash.new":      (*State).hashNew,
	"hash.update":   (*State).hashUpdate,
	"hash.digest":   (*State).hashDigest,
	"hash.copy":     (*State).hashCopy,
	"crypto.random": (*State).random,
	"crypto.digest": func(c *State, args []goja.Value) goja.Value {
		if digests[digestName(native.Arg(args, 0).String())] == nil {
			panic(c.NewError("Error", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+native.Clip(native.Arg(args, 0).String())))
		}
		return goja.Undefined()
	},
	"crypto.digest.type": func(c *State, args []goja.Value) goja.Value {
		c.digest(native.Arg(args, 0).String())
		return goja.Undefined()
	},
	"crypto.equal":     (*State).timingSafeEqual,
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
}

// digests are the hash functions by their names in Node.
var digests = map[string]func() hash.Hash{
	"md5":        md5.New,
	"sha1":       sha1.New,
	"sha224":     sha256.New224,
	"sha256":     sha256.New,
	"sha384":     sha512.New384,
	"sha512":     sha512.New,
	"sha512-224": sha512.New512_224,
	"sha512-256": sha512.New512_256,
	"sha3-224":   func() hash.Hash { return sha3.New224() },
	"sha3-256":   func() hash.Hash { return sha3.New256() },
	"sha3-384":   func() hash.Hash { return sha3.New384() },
	"sha3-512":   func() hash.Hash { return sha3.New512() },
	"ripemd160":  ripemd160.New,
}

// cryptoHashes are the hash functions that signatures may use.
var cryptoHashes = map[string]crypto.Hash{
	"md5": crypto.MD5, "sha1": crypto.SHA1, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384,
	"sha512": crypto.SHA512, "sha512-224": crypto.SHA512_224, "sha512-256": crypto.SHA512_256,
	"sha3-256": crypto.SHA3_256, "sha3-384": crypto.SHA3_384, "sha3-512": crypto.SHA3_512,
}

// digestName normalizes the name of a digest for the tables.
func digestName(name string) string {
	name = strings.ToLower(name)
	name = strings.TrimPrefix(name, "rsa-")
	name = strings.TrimSuffix(name, "withrsaencryption")
	name = strings.TrimSuffix(name, "withrsa")
	if short := strings.Replace(name, "sha-", "sha", 1); digests[short] != nil {
		return short
	}
	if name == "rmd160" || name == "ripemd" {
		return "ripemd160"
	}
	return strings.ReplaceAll(name, "/", "-")
}

// digest returns a hash function, or throws.
func (c *State) digest(name string) func() hash.Hash {
	f, ok := digests[digestName(name)]
	if !ok {
		panic(c.NewError("TypeError", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+native.Clip(name)))
	}
	return f
}

// hashNew takes the name of a digest and, for an HMAC, the key.
func (c *State) hashNew(args []goja.Value) goja.Value {
	name := native.Arg(args, 0).String()
	f, ok := digests[digestName(name)]
	keyed := !goja.IsUndefined(native.Arg(args, 1))
	switch {
	case !ok && keyed:
		panic(c.NewError("Error", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+native.Clip(name)))
	case !ok:
		panic(c.NewError("Error", "", "Digest method not supported"))
	case keyed:
		c.hashes = append(c.hashes, hmac.New(f, c.BytesOf(native.Arg(args, 1))))
	default:
		c.hashes = append(c.hashes, f())
	}
	return c.VM.ToValue(len(c.hashes) - 1)
}

func (c *State) hashState(args []goja.Value) hash.Hash {
	return c.hashes[int(native.Arg(args, 0).ToInteger())]
}

func (c *State) hashUpdate(args []goja.Value) goja.Value {
	c.hashState(args).Write(c.BytesOf(native.Arg(args, 1)))
	return goja.Undefined()
}

func (c *State) hashDigest(args []goja.Value) goja.Value {
	return c.Buffer(c.hashState(args).Sum(nil))
}

func (c *State) hashCopy(args []goja.Value) goja.Value {
	state, ok := c.hashState(args).(encoding.BinaryMarshaler)
	f := c.digest(native.Arg(args, 1).String())()
	into, ok2 := f.(encoding.BinaryUnmarshaler)
	if !ok || !ok2 {
		panic(c.NewError("Error", "ERR_CRYPTO_HASH_FINALIZED", "This digest cannot be copied"))
	}
	saved, err := state.MarshalBinary()
	if err == nil {
		err = into.UnmarshalBinary(saved)
	}
	if err != nil {
		panic(c.NewError("Error", "", "This digest cannot be copied"))
	}
	c.hashes = append(c.hashes, f)
	return c.VM.ToValue(len(c.hashes) - 1)
}

// size reads a length that the code requests.
func (c *State) size(v goja.Value) int {
	n := v.ToInteger()
	if n < 0 || n > maxRandom {
		panic(c.NewError("RangeError", "ERR_OUT_OF_RANGE", "The length is out of range"))
	}
	return int(n)
}

func (c *State) random(args []goja.Value) goja.Value {
	b := make([]byte, c.size(native.Arg(args, 0)))
	_, _ = rand.Read(b) // never fails, because the process ends if the system has no randomness
	return c.Buffer(b)
}

func (c *State) timingSafeEqual(args []goja.Value) goja.Value {
	a, b := c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1))
	if len(a) != len(b) {
		panic(c.NewError("RangeError", "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length"))
	}
	return c.VM.ToValue(subtle.ConstantTimeCompare(a, b) == 1)
}

// pbkdf2 takes password, salt, iterations, length, digest.
func (c *State) pbkdf2(args []goja.Value) goja.Value {
	iterations := native.Arg(args, 2).ToInteger()
	if iterations < 1 {
		panic(c.NewError("RangeError", "ERR_OUT_OF_RANGE", `The value of "iterations" is out of range`))
	}
	out, err := pbkdf2.Key(c.digest(native.Arg(args, 4).String()), string(c.BytesOf(native.Arg(args, 0))), c.BytesOf(native.Arg(args, 1)),
		int(iterations), c.size(native.Arg(args, 3)))
	if err != nil {
		panic(c.NewError("Error", "ERR_CRYPTO_PBKDF2_ERROR", "PBKDF2 failed"))
	}
	return c.Buffer(out)
}

// scrypt takes password, salt, length, N, r, p and the memory limit.
func (c *State) scrypt(args []goja.Value) goja.Value {
	n, r, p := native.Arg(args, 3).ToInteger(), native.Arg(args, 4).ToInteger(), native.Arg(args, 5).ToInteger()
	limit := min(native.Arg(args, 6).ToInteger(), maxScryptMemory)
	if n < 2 || r < 1 || p < 1 || r > 1<<16 || n > 1<<24 || 128*n*r > limit {
		panic(c.NewError("RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params: memory limit exceeded"))
	}
	out, err := scrypt.Key(c.BytesOf(native.Arg(args, 0)), c.BytesOf(native.Arg(args, 1)), int(n), int(r), int(p), c.size(native.Arg(args, 2)))
	if err != nil {
		panic(c.NewError("RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params"))
	}
	return c.Buffer(out)
}

// hkdf takes digest, key, salt, info, length.
func (c *State) hkdf(args []goja.Value) goja.Value {
	out, err := hkdf.Key(c.digest(native.Arg(args, 0).String()), c.BytesOf(native.Arg(args, 1)), c.BytesOf(native.Arg(args, 2)),
		string(c.BytesOf(native.Arg(args, 3))), c.size(native.Arg(args, 4)))
	if err != nil {
		panic(c.NewError("RangeError", "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length"))
	}
	return c.Buffer(out)
}
