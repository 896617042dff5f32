package vaultlog

import "strings"

// scan masks what it recognizes in a text. It returns the same text when there is
// nothing.
func scan(s string) string {
	var out []byte // nil until something is masked
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

// startsHex reports whether a hexadecimal number can start at i: nothing of it is
// before.
func startsHex(s string, i int) bool { return i == 0 || !isDigit(s[i-1]) && !isLetter(s[i-1]) }

// minHex is how many digits a hexadecimal number has that is no card number for
// sure: a trace id or a hash.
const minHex = 32

// uuidForm is where a UUID has its dashes.
const uuidForm = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"

// identifier returns how many bytes at the start of s are a UUID or a long
// hexadecimal number.
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

// keyKinds are the beginnings of API keys.
var keyKinds = []string{"key_pub_", "key_prv_", "key_mgt_", "key_sess_"}

// minKey is how many characters after its kind make a text an API key, even if its
// end was cut off.
const minKey = 12

// apiKey returns where the secret part of an API key is that starts at i. To is 0
// when there is none.
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

// minRun is how many digits the shortest number has that is masked.
const minRun = 9

// runEnd returns where groups of digits end that start at i, with one space or dash
// between them, and how many digits they have.
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

// digits are groups of digits with one space or dash between them.
type digits struct {
	s      string
	groups []span
}

// span is a part of a text.
type span struct{ from, to int }

func (g span) length() int { return g.to - g.from }

// digitRun returns the groups of digits from i to the end of s.
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

// Bounds on card numbers, and how many digits of a number stay.
const (
	minCard, maxCard = 12, 19
	minGroup         = 4 // of all groups but the last
	shownDigits      = 4
)

// mask masks card numbers and social security numbers in the text that the digits
// are of.
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

// lastShown returns where the last four digits up to the end of a group begin.
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

// card returns how many groups from i on are a card number: as many as possible.
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

// isTime reports whether a number can be a time of these decades, in milliseconds,
// microseconds or nanoseconds.
func isTime(s string) bool { return s[0] == '1' && (len(s) == 13 || len(s) == 16 || len(s) == 19) }

// socialSecurity reports, as a number of groups, whether the groups from i on are a
// social security number.
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

// luhn checks the checksum of digits, among other characters. Zeros alone have
// none.
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
