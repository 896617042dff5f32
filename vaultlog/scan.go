package vaultlog

import "strings"

// scan masks the numbers and keys in a text.
func scan(s string) string {
	var out []byte // nil until there is a match
	for i := 0; i < len(s); {
		switch {
		case isHex(s[i]) && startsHex(s, i):
			if n := identifier(s[i:]); n > 0 {
				i += n
				continue
			}
		case s[i] == 'k':
			if from, to := apiKey(s, i); to > 0 {
				out = fill(out, s, from, to)
				i = to
				continue
			}
		}
		if !isDigit(s[i]) {
			i++
			continue
		}
		end, count := runEnd(s, i)
		if count >= minRun {
			run := digitRun(s[:end], i)
			out = run.mask(out, s)
		}
		i = end
	}
	if out == nil {
		return s
	}
	return string(out)
}

// fill masks letters and digits of a part of s.
func fill(out []byte, s string, from, to int) []byte {
	if out == nil {
		out = []byte(s)
	}
	for i := from; i < to; i++ {
		if isLetter(out[i]) || isDigit(out[i]) {
			out[i] = 'X'
		}
	}
	return out
}

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// startsHex reports whether no letter or digit comes before i.
func startsHex(s string, i int) bool { return i == 0 || !isDigit(s[i-1]) && !isLetter(s[i-1]) }

// minHex is the length from which a hexadecimal number is a trace id or a hash, and
// not a card number.
const minHex = 32

// uuidForm shows the positions of the dashes in a UUID.
const uuidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// identifier returns the length of the UUID or long hexadecimal number at the
// start of s, or 0.
func identifier(s string) int {
	n := 0
	for n < len(s) && isHex(s[n]) {
		n++
	}
	if n >= minHex && strings.ContainsAny(s[:n], "abcdefABCDEF") {
		return n
	}
	if n != strings.IndexByte(uuidForm, '-') || len(s) < len(uuidForm) {
		return 0
	}
	for i := range len(uuidForm) {
		if (uuidForm[i] == '-') != (s[i] == '-') || s[i] != '-' && !isHex(s[i]) {
			return 0
		}
	}
	return len(uuidForm)
}

// keyKinds are the prefixes of API keys.
var keyKinds = []string{"key_pub_", "key_prv_", "key_mgt_", "key_sess_"}

// minKey is the minimum number of characters after the prefix of an API key.
// Keys in logs are often truncated.
const minKey = 12

// apiKey returns the position of the secret part of an API key that starts at
// i. To is 0 if no key starts there.
func apiKey(s string, i int) (from, to int) {
	for _, kind := range keyKinds {
		if !strings.HasPrefix(s[i:], kind) {
			continue
		}
		from = i + len(kind)
		for to = from; to < len(s) && (isDigit(s[to]) || isLetter(s[to])); to++ {
		}
		if to-from >= minKey {
			return from, to
		}
	}
	return 0, 0
}

// minRun is the number of digits of a social security number, the shortest match.
const minRun = 9

// runEnd returns the end and the number of digits of the run that starts at i:
// groups of digits with one space or dash between them.
func runEnd(s string, i int) (end, count int) {
	for i < len(s) {
		switch {
		case isDigit(s[i]):
			count++
		case (s[i] == ' ' || s[i] == '-') && i+1 < len(s) && isDigit(s[i+1]):
		default:
			return i, count
		}
		i++
	}
	return i, count
}

// digits is a run of digits.
type digits struct {
	s      string
	groups []span
}

// span is a part of a text.
type span struct{ from, to int }

func (g span) length() int { return g.to - g.from }

// digitRun splits the run from i to the end of s into its groups.
func digitRun(s string, i int) digits {
	d := digits{s: s}
	for i < len(s) {
		from := i
		for i < len(s) && isDigit(s[i]) {
			i++
		}
		d.groups = append(d.groups, span{from, i})
		i++
	}
	return d
}

// Bounds on card numbers, and the number of digits that stay.
const (
	minCard, maxCard = 12, 19
	minGroup         = 4 // minimum length of all groups except the last
	shownDigits      = 4
)

// mask masks the card numbers and social security numbers of the run in the whole
// text.
func (d *digits) mask(out []byte, all string) []byte {
	for i := 0; i < len(d.groups); {
		n := max(d.card(i), d.socialSecurity(i))
		if n > 0 {
			out = fill(out, all, d.groups[i].from, d.lastShown(i+n-1))
		}
		i += max(n, 1)
	}
	return out
}

// lastShown returns the start of the last four digits up to the end of a group.
func (d *digits) lastShown(group int) int {
	at := d.groups[group].to
	for shown := 0; shown < shownDigits; {
		at--
		if isDigit(d.s[at]) {
			shown++
		}
	}
	return at
}

// card returns the number of groups from i that form the longest card number.
func (d *digits) card(i int) int {
	found, length := 0, 0
	for n := 1; i+n <= len(d.groups); n++ {
		group := d.groups[i+n-1]
		length += group.length()
		if length > maxCard || n > 1 && d.groups[i+n-2].length() < minGroup {
			break
		}
		if length >= minCard && luhn(d.s[d.groups[i].from:group.to]) && !(n == 1 && isTime(d.s[group.from:group.to])) {
			found = n
		}
	}
	return found
}

// isTime reports whether a number may be a current Unix time in milliseconds,
// microseconds or nanoseconds.
func isTime(s string) bool { return s[0] == '1' && (len(s) == 13 || len(s) == 16 || len(s) == 19) }

// socialSecurity returns 3 if the three groups from i form a social security number,
// and 0 otherwise.
func (d *digits) socialSecurity(i int) int {
	if i+3 > len(d.groups) {
		return 0
	}
	g := d.groups[i : i+3]
	if g[0].length() != 3 || g[1].length() != 2 || g[2].length() != 4 || d.s[g[0].to] != d.s[g[1].to] {
		return 0
	}
	return 3
}

// luhn checks the Luhn checksum of the digits in s. It rejects zeros alone.
func luhn(s string) bool {
	sum, double := 0, false
	for i := len(s) - 1; i >= 0; i-- {
		if !isDigit(s[i]) {
			continue
		}
		n := int(s[i] - '0')
		if double {
			if n *= 2; n > 9 {
				n -= 9
			}
		}
		sum += n
		double = !double
	}
	return sum > 0 && sum%10 == 0
}
