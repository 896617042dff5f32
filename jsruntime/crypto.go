package jsruntime

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
	"strings"

	"github.com/dop251/goja"
	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // Node has it, and old protocols use it
	"golang.org/x/crypto/scrypt"
)

// maxRandom bounds what one call of randomBytes and the derivation functions
// may return.
const maxRandom = 16 << 20

// maxScryptMemory is what scrypt may use, whatever the code asks for.
const maxScryptMemory = 64 << 20

// cryptoNatives are the symmetric half of Node's crypto. States of hashes and
// ciphers stay in Go; the code holds their numbers.
var cryptoNatives = map[string]native{
	"hash.new":      (*execution).hashNew,
	"hash.update":   (*execution).hashUpdate,
	"hash.digest":   (*execution).hashDigest,
	"hash.copy":     (*execution).hashCopy,
	"crypto.random": (*execution).random,
	"crypto.digest": func(c *execution, args []goja.Value) goja.Value {
		if digests[digestName(arg(args, 0).String())] == nil {
			panic(c.newError("Error", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+clip(arg(args, 0).String())))
		}
		return goja.Undefined()
	},
	"crypto.digest.type": func(c *execution, args []goja.Value) goja.Value {
		c.digest(arg(args, 0).String())
		return goja.Undefined()
	},
	"crypto.equal":     (*execution).timingSafeEqual,
	"crypto.pbkdf2":    (*execution).pbkdf2,
	"crypto.scrypt":    (*execution).scrypt,
	"crypto.hkdf":      (*execution).hkdf,
	"cipher.new":       (*execution).cipherNew,
	"cipher.info":      (*execution).cipherInfo,
	"cipher.update":    (*execution).cipherUpdate,
	"cipher.final":     (*execution).cipherFinal,
	"cipher.aad":       (*execution).cipherAAD,
	"cipher.tag":       (*execution).cipherTag,
	"cipher.settag":    (*execution).cipherSetTag,
	"cipher.nopadding": (*execution).cipherNoPadding,
}

// digests are the hash functions by the names that Node knows them under.
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

// cryptoHashes are those that signatures may use.
var cryptoHashes = map[string]crypto.Hash{
	"md5": crypto.MD5, "sha1": crypto.SHA1, "sha224": crypto.SHA224, "sha256": crypto.SHA256, "sha384": crypto.SHA384,
	"sha512": crypto.SHA512, "sha512-224": crypto.SHA512_224, "sha512-256": crypto.SHA512_256,
	"sha3-256": crypto.SHA3_256, "sha3-384": crypto.SHA3_384, "sha3-512": crypto.SHA3_512,
}

// digestName brings a name of a digest into the form of the tables.
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
func (c *execution) digest(name string) func() hash.Hash {
	f, ok := digests[digestName(name)]
	if !ok {
		panic(c.newError("TypeError", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+clip(name)))
	}
	return f
}

// hashNew takes the name of a digest and, for an HMAC, the key.
func (c *execution) hashNew(args []goja.Value) goja.Value {
	name := arg(args, 0).String()
	f, ok := digests[digestName(name)]
	keyed := !goja.IsUndefined(arg(args, 1))
	switch {
	case !ok && keyed:
		panic(c.newError("Error", "ERR_CRYPTO_INVALID_DIGEST", "Invalid digest: "+clip(name)))
	case !ok:
		panic(c.newError("Error", "", "Digest method not supported"))
	case keyed:
		c.hashes = append(c.hashes, hmac.New(f, c.bytesOf(arg(args, 1))))
	default:
		c.hashes = append(c.hashes, f())
	}
	return c.vm.ToValue(len(c.hashes) - 1)
}

func (c *execution) hashState(args []goja.Value) hash.Hash {
	return c.hashes[int(arg(args, 0).ToInteger())]
}

func (c *execution) hashUpdate(args []goja.Value) goja.Value {
	c.hashState(args).Write(c.bytesOf(arg(args, 1)))
	return goja.Undefined()
}

func (c *execution) hashDigest(args []goja.Value) goja.Value {
	return c.buffer(c.hashState(args).Sum(nil))
}

// hashCopy copies the state of a hash.
func (c *execution) hashCopy(args []goja.Value) goja.Value {
	state, ok := c.hashState(args).(encoding.BinaryMarshaler)
	f := c.digest(arg(args, 1).String())()
	into, ok2 := f.(encoding.BinaryUnmarshaler)
	if !ok || !ok2 {
		panic(c.newError("Error", "ERR_CRYPTO_HASH_FINALIZED", "This digest cannot be copied"))
	}
	saved, err := state.MarshalBinary()
	if err == nil {
		err = into.UnmarshalBinary(saved)
	}
	if err != nil {
		panic(c.newError("Error", "", "This digest cannot be copied"))
	}
	c.hashes = append(c.hashes, f)
	return c.vm.ToValue(len(c.hashes) - 1)
}

// size reads a length that the code asks for.
func (c *execution) size(v goja.Value) int {
	n := v.ToInteger()
	if n < 0 || n > maxRandom {
		panic(c.newError("RangeError", "ERR_OUT_OF_RANGE", "The length is out of range"))
	}
	return int(n)
}

func (c *execution) random(args []goja.Value) goja.Value {
	b := make([]byte, c.size(arg(args, 0)))
	_, _ = rand.Read(b) // never fails: the process ends if the system has no randomness
	return c.buffer(b)
}

func (c *execution) timingSafeEqual(args []goja.Value) goja.Value {
	a, b := c.bytesOf(arg(args, 0)), c.bytesOf(arg(args, 1))
	if len(a) != len(b) {
		panic(c.newError("RangeError", "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH", "Input buffers must have the same byte length"))
	}
	return c.vm.ToValue(subtle.ConstantTimeCompare(a, b) == 1)
}

// pbkdf2 takes password, salt, iterations, length, digest.
func (c *execution) pbkdf2(args []goja.Value) goja.Value {
	iterations := arg(args, 2).ToInteger()
	if iterations < 1 {
		panic(c.newError("RangeError", "ERR_OUT_OF_RANGE", `The value of "iterations" is out of range`))
	}
	out, err := pbkdf2.Key(c.digest(arg(args, 4).String()), string(c.bytesOf(arg(args, 0))), c.bytesOf(arg(args, 1)),
		int(iterations), c.size(arg(args, 3)))
	if err != nil {
		panic(c.newError("Error", "ERR_CRYPTO_PBKDF2_ERROR", "PBKDF2 failed"))
	}
	return c.buffer(out)
}

// scrypt takes password, salt, length, N, r, p and the memory that it may use.
func (c *execution) scrypt(args []goja.Value) goja.Value {
	n, r, p := arg(args, 3).ToInteger(), arg(args, 4).ToInteger(), arg(args, 5).ToInteger()
	limit := min(arg(args, 6).ToInteger(), maxScryptMemory)
	if n < 2 || r < 1 || p < 1 || r > 1<<16 || n > 1<<24 || 128*n*r > limit {
		panic(c.newError("RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params: memory limit exceeded"))
	}
	out, err := scrypt.Key(c.bytesOf(arg(args, 0)), c.bytesOf(arg(args, 1)), int(n), int(r), int(p), c.size(arg(args, 2)))
	if err != nil {
		panic(c.newError("RangeError", "ERR_CRYPTO_INVALID_SCRYPT_PARAMS", "Invalid scrypt params"))
	}
	return c.buffer(out)
}

// hkdf takes digest, key, salt, info, length.
func (c *execution) hkdf(args []goja.Value) goja.Value {
	out, err := hkdf.Key(c.digest(arg(args, 0).String()), c.bytesOf(arg(args, 1)), c.bytesOf(arg(args, 2)),
		string(c.bytesOf(arg(args, 3))), c.size(arg(args, 4)))
	if err != nil {
		panic(c.newError("RangeError", "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length"))
	}
	return c.buffer(out)
}
