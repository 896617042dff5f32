package crypto

import (
	"crypto/rand"
	"math/big"

	"github.com/dop251/goja"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// maxPrimeBits limits the size of numbers, and so the time of operations.
const maxPrimeBits = 8192

// dhGroups are the groups of RFC 2412 and 3526: the bits of the prime, and the
// number that their formula adds to the digits of pi.
var dhGroups = map[string][2]int64{
	"modp1": {768, 149686}, "modp2": {1024, 129093}, "modp5": {1536, 741804}, "modp14": {2048, 124476},
	"modp15": {3072, 1690314}, "modp16": {4096, 240904}, "modp17": {6144, 929484}, "modp18": {8192, 4743158},
}

// dhGroup returns the prime of a group, or undefined.
func (c *State) dhGroup(args []goja.Value) goja.Value {
	g, ok := dhGroups[native.Arg(args, 0).String()]
	if !ok {
		return goja.Undefined()
	}
	return c.Buffer(groupPrime(uint(g[0]), g[1]).Bytes())
}

// groupPrime computes 2^n - 2^(n-64) - 1 + 2^64 * (floor(2^(n-130) * pi) + add).
func groupPrime(n uint, add int64) *big.Int {
	one := big.NewInt(1)
	p := new(big.Int).Lsh(one, n)
	p.Sub(p, new(big.Int).Lsh(one, n-64))
	p.Sub(p, one)
	digits := piTimes(n - 130)
	digits.Add(digits, big.NewInt(add))
	return p.Add(p, digits.Lsh(digits, 64))
}

// piTimes returns floor(2^bits * pi), by Machin's formula.
func piTimes(bits uint) *big.Int {
	const guard = 64
	unit := new(big.Int).Lsh(big.NewInt(1), bits+guard)
	sum := new(big.Int).Mul(arccot(5, unit), big.NewInt(16))
	sum.Sub(sum, new(big.Int).Mul(arccot(239, unit), big.NewInt(4)))
	return sum.Rsh(sum, guard)
}

func arccot(x int64, unit *big.Int) *big.Int {
	square := big.NewInt(x * x)
	term := new(big.Int).Div(unit, big.NewInt(x))
	sum := new(big.Int).Set(term)
	for n := int64(3); term.Sign() != 0; n += 2 {
		term.Div(term, square)
		part := new(big.Int).Div(term, big.NewInt(n))
		if n%4 == 3 {
			sum.Sub(sum, part)
		} else {
			sum.Add(sum, part)
		}
	}
	return sum
}

// dhPrime returns a random prime of the given number of bits.
func (c *State) dhPrime(args []goja.Value) goja.Value {
	bits := native.Arg(args, 0).ToInteger()
	c.Check(bits >= 2 && bits <= maxPrimeBits, "Error", "ERR_OSSL_BN_BITS_TOO_SMALL", "error:02800080:Diffie-Hellman routines::bad modulus length")
	p, err := rand.Prime(rand.Reader, int(bits))
	c.Check(err == nil, "Error", "ERR_OPERATION_FAILED", "the prime cannot be found")
	return c.Buffer(p.Bytes())
}

func (c *State) number(v goja.Value) *big.Int {
	b := c.BytesOf(v)
	c.Check(len(b) <= maxPrimeBits/8, "Error", "ERR_OUT_OF_RANGE", "the number is too large")
	return new(big.Int).SetBytes(b)
}

// dhGenerate returns a private key for a prime.
func (c *State) dhGenerate(args []goja.Value) goja.Value {
	p := c.number(native.Arg(args, 0))
	span := new(big.Int).Sub(p, big.NewInt(2))
	c.Check(span.Sign() > 0, "Error", "ERR_OPERATION_FAILED", "the prime is too small")
	x, err := rand.Int(rand.Reader, span)
	c.Check(err == nil, "Error", "ERR_OPERATION_FAILED", "no key can be made")
	return c.Buffer(x.Add(x, big.NewInt(1)).Bytes())
}

// dhPower takes base, exponent and prime, and pads the result to the length of
// the prime.
func (c *State) dhPower(args []goja.Value) goja.Value {
	p := c.number(native.Arg(args, 2))
	c.Check(p.Sign() != 0, "Error", "ERR_OPERATION_FAILED", "the prime is zero")
	r := new(big.Int).Exp(c.number(native.Arg(args, 0)), c.number(native.Arg(args, 1)), p)
	return c.Buffer(r.FillBytes(make([]byte, (p.BitLen()+7)/8)))
}

// dhCheck returns the problems of a prime and a generator, in the bits that
// OpenSSL uses.
func (c *State) dhCheck(args []goja.Value) goja.Value {
	p, g := c.number(native.Arg(args, 0)), c.number(native.Arg(args, 1))
	found := 0
	if !p.ProbablyPrime(10) {
		found |= 1
	} else if q := new(big.Int).Rsh(p, 1); !q.ProbablyPrime(10) {
		found |= 2
	}
	if g.Cmp(big.NewInt(1)) <= 0 || g.Cmp(new(big.Int).Sub(p, big.NewInt(1))) >= 0 {
		found |= 8
	}
	return c.VM.ToValue(found)
}
