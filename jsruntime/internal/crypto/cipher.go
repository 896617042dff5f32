package crypto

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/subtle"
	"strings"

	"github.com/dop251/goja"
	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// cipherKind describes a cipher with a name like aes-256-cbc.
type cipherKind struct {
	name  string
	key   int // bytes
	iv    int // bytes; -1 for any
	mode  string
	block func(key []byte) (cipher.Block, error)
}

// cipherKinds are the ciphers that the code may use.
var cipherKinds = func() map[string]cipherKind {
	kinds := map[string]cipherKind{
		"des-ede3-cbc":      {"des-ede3-cbc", 24, 8, "cbc", des.NewTripleDESCipher},
		"des-ede3":          {"des-ede3", 24, 0, "ecb", des.NewTripleDESCipher},
		"des-ede3-ecb":      {"des-ede3", 24, 0, "ecb", des.NewTripleDESCipher},
		"des-ede":           {"des-ede", 16, 0, "ecb", twoKeyDES},
		"des-ede-cbc":       {"des-ede-cbc", 16, 8, "cbc", twoKeyDES},
		"chacha20-poly1305": {"chacha20-poly1305", 32, 12, "chacha", nil},
	}
	for bits, size := range map[string]int{"128": 16, "192": 24, "256": 32} {
		for mode, iv := range map[string]int{"cbc": 16, "ctr": 16, "ecb": 0, "gcm": -1} {
			name := "aes-" + bits + "-" + mode
			kinds[name] = cipherKind{name, size, iv, mode, aes.NewCipher}
		}
		kinds["aes"+bits] = kinds["aes-"+bits+"-cbc"]
		kinds["id-aes"+bits+"-gcm"] = kinds["aes-"+bits+"-gcm"]
	}
	kinds["des3"] = kinds["des-ede3-cbc"]
	return kinds
}()

func twoKeyDES(key []byte) (cipher.Block, error) {
	return des.NewTripleDESCipher(append(append([]byte{}, key...), key[:8]...))
}

// cipherState is a cipher in use.
type cipherState struct {
	kind    cipherKind
	encrypt bool
	padding bool
	block   cipher.Block
	chain   cipher.BlockMode // cbc
	stream  cipher.Stream    // ctr, gcm, chacha
	aead    cipher.AEAD      // gcm, chacha: for the tag
	nonce   []byte
	aad     []byte
	plain   []byte // of an AEAD, for the tag
	rest    []byte // cbc, ecb: less than a block, or the last block
	tag     []byte
	tagLen  int
	done    bool
}

// cipherInfo returns [key bytes, iv bytes, mode, name] of a cipher, or
// undefined.
func (c *State) cipherInfo(args []goja.Value) goja.Value {
	k, ok := cipherKinds[strings.ToLower(native.Arg(args, 0).String())]
	if !ok {
		return goja.Undefined()
	}
	return c.VM.NewArray(k.key, k.iv, k.mode, k.name)
}

// cipherNew takes name, key, iv, whether to encrypt, and the length of the tag.
func (c *State) cipherNew(args []goja.Value) goja.Value {
	kind, ok := cipherKinds[strings.ToLower(native.Arg(args, 0).String())]
	c.Check(ok, "Error", "ERR_CRYPTO_UNKNOWN_CIPHER", "Unknown cipher")
	key, iv := c.BytesOf(native.Arg(args, 1)), append([]byte{}, c.BytesOf(native.Arg(args, 2))...)
	c.Check(len(key) == kind.key, "RangeError", "ERR_CRYPTO_INVALID_KEYLEN", "Invalid key length")
	c.Check(len(iv) == kind.iv || kind.iv < 0 && len(iv) > 0, "TypeError", "ERR_CRYPTO_INVALID_IV", "Invalid initialization vector")
	s := &cipherState{kind: kind, encrypt: native.Arg(args, 3).ToBoolean(), padding: true, nonce: iv, tagLen: int(native.Arg(args, 4).ToInteger())}
	c.Check(s.start(key, iv) == nil, "Error", "ERR_CRYPTO_INVALID_STATE", "the cipher cannot be used")
	c.ciphers = append(c.ciphers, s)
	return c.VM.ToValue(len(c.ciphers) - 1)
}

func (s *cipherState) start(key, iv []byte) (err error) {
	if s.kind.mode == "chacha" {
		if s.aead, err = chacha20poly1305.New(key); err != nil {
			return err
		}
		stream, err := chacha20.NewUnauthenticatedCipher(key, iv)
		if err == nil {
			stream.SetCounter(1)
			s.stream = stream
		}
		return err
	}
	if s.block, err = s.kind.block(key); err != nil {
		return err
	}
	switch s.kind.mode {
	case "cbc":
		s.chain = cipher.NewCBCDecrypter(s.block, iv)
		if s.encrypt {
			s.chain = cipher.NewCBCEncrypter(s.block, iv)
		}
	case "ctr":
		s.stream = cipher.NewCTR(s.block, iv)
	case "gcm":
		if s.aead, err = cipher.NewGCMWithNonceSize(s.block, len(iv)); err != nil {
			return err
		}
		// GCM is counter mode. Decrypting the first block of its key stream
		// gives its first counter.
		first := s.aead.Seal(nil, iv, make([]byte, 16), nil)[:16]
		s.block.Decrypt(first, first)
		s.stream = cipher.NewCTR(s.block, first)
	}
	return nil
}

func (c *State) cipherOf(args []goja.Value) *cipherState {
	s := c.ciphers[int(native.Arg(args, 0).ToInteger())]
	c.Check(!s.done, "Error", "ERR_CRYPTO_INVALID_STATE", "Unsupported state")
	return s
}

func (c *State) cipherUpdate(args []goja.Value) goja.Value {
	s, data := c.cipherOf(args), c.BytesOf(native.Arg(args, 1))
	if s.stream != nil {
		out := make([]byte, len(data))
		s.stream.XORKeyStream(out, data)
		if s.aead != nil && s.encrypt {
			s.plain = append(s.plain, data...)
		} else if s.aead != nil {
			s.plain = append(s.plain, out...)
		}
		return c.Buffer(out)
	}
	s.rest = append(s.rest, data...)
	size := s.block.BlockSize()
	ready := len(s.rest) / size * size
	if !s.encrypt && s.padding && ready == len(s.rest) && ready > 0 {
		ready -= size // the last block has the padding
	}
	out := make([]byte, ready)
	s.crypt(out, s.rest[:ready])
	s.rest = append([]byte{}, s.rest[ready:]...)
	return c.Buffer(out)
}

// crypt encrypts or decrypts whole blocks.
func (s *cipherState) crypt(out, in []byte) {
	if s.chain != nil {
		s.chain.CryptBlocks(out, in)
		return
	}
	size := s.block.BlockSize()
	for i := 0; i < len(in); i += size {
		if s.encrypt {
			s.block.Encrypt(out[i:], in[i:])
		} else {
			s.block.Decrypt(out[i:], in[i:])
		}
	}
}

func (c *State) cipherFinal(args []goja.Value) goja.Value {
	s := c.cipherOf(args)
	s.done = true
	if s.aead != nil {
		c.finishTag(s)
	}
	if s.stream != nil {
		return c.Buffer(nil)
	}
	size := s.block.BlockSize()
	if s.encrypt {
		if s.padding {
			s.rest = pad(s.rest, size)
		}
		c.Check(len(s.rest)%size == 0, "Error", "ERR_OSSL_EVP_DATA_NOT_MULTIPLE_OF_BLOCK_LENGTH", "error:0607F08A:digital envelope routines:EVP_EncryptFinal_ex:data not multiple of block length")
		out := make([]byte, len(s.rest))
		s.crypt(out, s.rest)
		return c.Buffer(out)
	}
	return c.Buffer(c.lastBlock(s, size))
}

// lastBlock decrypts the last block and removes its padding.
func (c *State) lastBlock(s *cipherState, size int) []byte {
	c.Check(len(s.rest)%size == 0 && (!s.padding || len(s.rest) > 0), "Error", "ERR_OSSL_EVP_WRONG_FINAL_BLOCK_LENGTH", "error:0606506D:digital envelope routines:EVP_DecryptFinal_ex:wrong final block length")
	out := make([]byte, len(s.rest))
	s.crypt(out, s.rest)
	if !s.padding {
		return out
	}
	out, ok := unpad(out, size)
	c.Check(ok, "Error", "ERR_OSSL_EVP_BAD_DECRYPT", "error:06065064:digital envelope routines:EVP_DecryptFinal_ex:bad decrypt")
	return out
}

// pad adds the padding of PKCS #7 up to whole blocks.
func pad(b []byte, size int) []byte {
	n := size - len(b)%size
	return append(b, bytes.Repeat([]byte{byte(n)}, n)...)
}

// unpad removes the padding, and reports whether it is valid.
func unpad(b []byte, size int) ([]byte, bool) {
	last := b[len(b)-1:]
	n := int(last[0])
	if n == 0 || n > size || bytes.Count(b[len(b)-n:], last) != n {
		return nil, false
	}
	return b[:len(b)-n], true
}

// finishTag computes the tag, and compares it when decrypting.
func (c *State) finishTag(s *cipherState) {
	sealed := s.aead.Seal(nil, s.nonce, s.plain, s.aad)
	full := sealed[len(s.plain):]
	if s.encrypt {
		s.tag = full[:s.tagLen]
		return
	}
	c.Check(len(s.tag) > 0 && subtle.ConstantTimeCompare(full[:len(s.tag)], s.tag) == 1, "Error", "", "Unsupported state or unable to authenticate data")
}

func (c *State) cipherAAD(args []goja.Value) goja.Value {
	s := c.cipherOf(args)
	s.aad = append(s.aad, c.BytesOf(native.Arg(args, 1))...)
	return goja.Undefined()
}

func (c *State) cipherTag(args []goja.Value) goja.Value {
	s := c.ciphers[int(native.Arg(args, 0).ToInteger())]
	c.Check(s.done && s.encrypt && s.aead != nil, "Error", "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation getAuthTag")
	return c.Buffer(append([]byte{}, s.tag...))
}

func (c *State) cipherSetTag(args []goja.Value) goja.Value {
	s := c.cipherOf(args)
	tag := c.BytesOf(native.Arg(args, 1))
	c.Check(s.aead != nil && !s.encrypt, "Error", "ERR_CRYPTO_INVALID_STATE", "Invalid state for operation setAuthTag")
	n := len(tag)
	c.Check(n == 4 || n == 8 || n >= 12 && n <= 16, "TypeError", "ERR_CRYPTO_INVALID_AUTH_TAG", "Invalid authentication tag length")
	s.tag = append([]byte{}, tag...)
	return goja.Undefined()
}

func (c *State) cipherNoPadding(args []goja.Value) goja.Value {
	s := c.cipherOf(args)
	s.padding = !native.Arg(args, 1).ToBoolean()
	return goja.Undefined()
}
