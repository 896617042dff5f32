package node

import (
	"bytes"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dop251/goja"
	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

// decodeStandard decodes bytes in an encoding of the WHATWG standard. It takes
// bytes, encoding, whether more will follow, whether invalid bytes are an
// error, and the state of an encoding that has states. It returns the text, how
// many bytes it used and the next state, or undefined.
func (c *Execution) decodeStandard(args []goja.Value) goja.Value {
	b, label := c.BytesOf(native.Arg(args, 0)), native.Arg(args, 1).String()
	more, fatal := native.Arg(args, 2).ToBoolean(), native.Arg(args, 3).ToBoolean()
	used := len(b)
	switch label {
	case "utf-8":
		if more {
			used -= incompleteUTF8(b)
		}
		if fatal && !utf8.Valid(b[:used]) {
			return goja.Undefined()
		}
		return c.VM.NewArray(decodeUTF8(b[:used]), used)
	case "utf-16le", "utf-16be":
		return c.decodeUTF16(b, label == "utf-16be", more, fatal)
	}
	return c.decodeLegacy(b, label, more, fatal, int(native.Arg(args, 4).ToInteger()))
}

// incompleteUTF8 returns how many bytes at the end are the start of a
// character.
func incompleteUTF8(b []byte) int {
	for back := 1; back <= min(3, len(b)); back++ {
		tail := b[len(b)-back:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) && brokenPrefix(tail) == back {
				return back
			}
			return 0
		}
	}
	return 0
}

// decodeUTF16 replaces lone surrogates with U+FFFD.
func (c *Execution) decodeUTF16(b []byte, big, more, fatal bool) goja.Value {
	units := make([]uint16, len(b)/2)
	for i := range units {
		lo, hi := b[2*i], b[2*i+1]
		if big {
			lo, hi = hi, lo
		}
		units[i] = uint16(lo) | uint16(hi)<<8
	}
	used := 2 * len(units)
	if n := len(units); more && n > 0 && units[n-1]&0xfc00 == 0xd800 {
		units, used = units[:n-1], used-2
	}
	odd := !more && len(b)%2 == 1
	runes := utf16.Decode(units)
	if fatal && (odd || !slices.Equal(utf16.Encode(runes), units)) {
		return goja.Undefined()
	}
	text := string(runes)
	if odd && (len(units) == 0 || units[len(units)-1]&0xfc00 != 0xd800) { // half a pair and half a unit count as one error
		text += "\ufffd"
	}
	if !more {
		used = len(b)
	}
	return c.VM.NewArray(text, used)
}

// decodeLegacy decodes encodings other than Unicode.
func (c *Execution) decodeLegacy(b []byte, label string, more, fatal bool, state int) goja.Value {
	enc, err := htmlindex.Get(label)
	if err != nil {
		return goja.Undefined()
	}
	if table := singleByte(enc, label); table != nil {
		text, ok := decodeBytes(b, table, fatal)
		if !ok {
			return goja.Undefined()
		}
		return c.VM.NewArray(text, len(b))
	}
	if label == "iso-2022-jp" {
		text, used, next, errs := decodeJP(b, state, more)
		if fatal && errs > 0 {
			return goja.Undefined()
		}
		return c.VM.NewArray(text, used, next)
	}
	if m, ok := multibytes[label]; ok {
		if text, used, ok := m.decode(b, more, fatal); ok {
			return c.VM.NewArray(text, used)
		}
	}
	return goja.Undefined()
}

// singleByte returns the table of a single-byte encoding, or nil.
func singleByte(enc encoding.Encoding, label string) *charmap.Charmap {
	switch label {
	case "iso-8859-6-e", "iso-8859-6-i":
		return charmap.ISO8859_6
	case "iso-8859-8-e", "iso-8859-8-i":
		return charmap.ISO8859_8
	}
	table, _ := enc.(*charmap.Charmap)
	return table
}

// decodeBytes decodes bytes with a table. According to the standard, bytes from
// 0x80 to 0x9F that an encoding leaves out are control characters.
func decodeBytes(b []byte, table *charmap.Charmap, fatal bool) (string, bool) {
	out := make([]rune, len(b))
	for i, c := range b {
		r := table.DecodeByte(c)
		if r == utf8.RuneError && c >= 0x80 && c <= 0x9f {
			r = rune(c)
		}
		if r == utf8.RuneError && fatal {
			return "", false
		}
		out[i] = r
	}
	return string(out), true
}

// encodeInto takes text and the room for it in bytes. It returns the bytes of
// the characters that fit, and their number of UTF-16 code units.
func (c *Execution) encodeInto(args []goja.Value) goja.Value {
	text, room := native.Arg(args, 0).String(), int(native.Arg(args, 1).ToInteger())
	read, n := 0, 0
	for i, r := range text {
		size := utf8.RuneLen(r)
		if i+size > room {
			break
		}
		n = i + size
		read += utf16.RuneLen(r)
	}
	return c.VM.NewArray(c.Buffer([]byte(text[:n])), read)
}

// A multibyte encoding has sequences of several bytes. The WHATWG standard
// defines how many bytes an invalid sequence takes, so split divides the text,
// and table maps single sequences.
type multibyte struct {
	table encoding.Encoding
	// split returns the length of the sequence at the start of b. It is 0 if
	// the sequence continues after b, and negative for -n invalid bytes.
	split func(b []byte) int
	// special maps the sequences that table lacks.
	special func(b []byte) rune
}

var multibytes = map[string]multibyte{
	"gbk":       {simplifiedchinese.GB18030, splitGB18030, specialGB18030},
	"gb18030":   {simplifiedchinese.GB18030, splitGB18030, specialGB18030},
	"big5":      {traditionalchinese.Big5, pairs(0x81, 0xfe), nil},
	"euc-kr":    {korean.EUCKR, pairs(0x81, 0xfe), nil},
	"euc-jp":    {japanese.EUCJP, splitEUCJP, nil},
	"shift_jis": {japanese.ShiftJIS, splitShiftJIS, specialShiftJIS},
}

func within(c, low, high byte) bool { return low <= c && c <= high }

// pairs splits an encoding whose pairs begin with a byte from low to high.
func pairs(low, high byte) func([]byte) int {
	return func(b []byte) int {
		switch {
		case b[0] < 0x80:
			return 1
		case !within(b[0], low, high):
			return -1
		}
		return min(len(b), 2) &^ 1
	}
}

func splitGB18030(b []byte) int {
	switch {
	case b[0] <= 0x80:
		return 1
	case b[0] == 0xff:
		return -1
	case len(b) < 2:
		return 0
	case !within(b[1], '0', '9'):
		return 2
	case len(b) < 3:
		return 0
	case !within(b[2], 0x81, 0xfe):
		return -1
	case len(b) < 4:
		return 0
	case !within(b[3], '0', '9'):
		return -1
	}
	return 4
}

func splitEUCJP(b []byte) int {
	switch {
	case b[0] != 0x8f:
		if b[0] == 0x8e {
			return min(len(b), 2) &^ 1
		}
		return pairs(0xa1, 0xfe)(b)
	case len(b) < 2:
		return 0
	case !within(b[1], 0xa1, 0xfe):
		return 2
	case len(b) < 3:
		return 0
	}
	return 3
}

func splitShiftJIS(b []byte) int {
	if b[0] == 0x80 || within(b[0], 0xa1, 0xdf) {
		return 1
	}
	if b[0] == 0xa0 {
		return -1
	}
	return pairs(0x81, 0xfc)(b)
}

// specialShiftJIS maps the control character and the characters for private use.
func specialShiftJIS(b []byte) rune {
	if b[0] == 0x80 {
		return 0x80
	}
	if len(b) == 2 && within(b[0], 0xf0, 0xf9) && within(b[1], 0x40, 0xfc) && b[1] != 0x7f {
		offset := rune(b[1]) - 0x40
		if b[1] > 0x7f {
			offset--
		}
		return 0xe000 + (rune(b[0])-0xf0)*188 + offset
	}
	return 0
}

// gb18030Pairs are pairs that the standard maps differently from the table,
// most of them since the edition of 2022.
var gb18030Pairs = map[[2]byte]rune{
	{0xa6, 0xd9}: 0xfe10, {0xa6, 0xda}: 0xfe12, {0xa6, 0xdb}: 0xfe11, {0xa6, 0xdc}: 0xfe13, {0xa6, 0xdd}: 0xfe14, {0xa6, 0xde}: 0xfe15,
	{0xa6, 0xdf}: 0xfe16, {0xa6, 0xec}: 0xfe17, {0xa6, 0xed}: 0xfe18, {0xa6, 0xf3}: 0xfe19, {0xfe, 0x59}: 0x9fb4, {0xfe, 0x61}: 0x9fb5,
	{0xa8, 0xbc}: 0x1e3f, {0xfe, 0x66}: 0x9fb6, {0xfe, 0x67}: 0x9fb7, {0xfe, 0x6d}: 0x9fb8, {0xfe, 0x7e}: 0x9fb9, {0xfe, 0x90}: 0x9fba, {0xfe, 0xa0}: 0x9fbb,
}

// specialGB18030 maps the euro sign, the areas for private use, and
// gb18030Pairs.
func specialGB18030(b []byte) rune {
	switch {
	case len(b) == 1 && b[0] == 0x80:
		return 0x20ac
	case bytes.Equal(b, []byte{0x81, 0x35, 0xf4, 0x37}):
		return 0xe7c7
	case bytes.Equal(b, []byte{0xa3, 0xa0}):
		return 0x3000
	case len(b) != 2:
		return 0
	case within(b[0], 0xaa, 0xaf) && within(b[1], 0xa1, 0xfe):
		return 0xe000 + (rune(b[0])-0xaa)*94 + rune(b[1]) - 0xa1
	case within(b[0], 0xf8, 0xfe) && within(b[1], 0xa1, 0xfe):
		return 0xe234 + (rune(b[0])-0xf8)*94 + rune(b[1]) - 0xa1
	case within(b[0], 0xa1, 0xa7) && within(b[1], 0x40, 0xa0) && b[1] != 0x7f:
		offset := rune(b[1]) - 0x40
		if b[1] > 0x7f {
			offset--
		}
		return 0xe4c6 + (rune(b[0])-0xa1)*96 + offset
	}
	return gb18030Pairs[[2]byte(b)]
}

// decode returns the text, and how many bytes it used. It reports false for
// invalid bytes if they are an error.
func (m multibyte) decode(b []byte, more, fatal bool) (text string, used int, ok bool) {
	d := m.table.NewDecoder()
	out := make([]byte, 0, len(b)+len(b)/2)
	for used < len(b) {
		n := m.split(b[used:])
		if n == 0 && more {
			break
		}
		if n > 0 {
			if next, ok := m.appendSequence(out, d, b[used:used+n]); ok {
				out = next
				used += n
				continue
			}
			if n > 1 && n < 4 && b[used+n-1] < utf8.RuneSelf { // ASCII ends an invalid sequence
				n--
			}
		}
		if fatal {
			return "", 0, false
		}
		out = utf8.AppendRune(out, utf8.RuneError)
		if n == 0 {
			n = len(b) - used
		}
		used += max(n, -n)
	}
	return string(out), used, true
}

// appendSequence appends the text of a sequence, if it has one.
func (m multibyte) appendSequence(out []byte, d *encoding.Decoder, sequence []byte) ([]byte, bool) {
	if sequence[0] < utf8.RuneSelf {
		return append(out, sequence[0]), true
	}
	if m.special != nil {
		if r := m.special(sequence); r != 0 {
			return utf8.AppendRune(out, r), true
		}
	}
	var text [2 * utf8.UTFMax]byte
	n, _, err := d.Transform(text[:], sequence, true)
	if err != nil || bytes.ContainsRune(text[:n], utf8.RuneError) && !bytes.Equal(sequence, replacementGB18030) {
		return out, false
	}
	return append(out, text[:n]...), true
}

// replacementGB18030 is U+FFFD in GB18030.
var replacementGB18030 = []byte{0x84, 0x31, 0xa4, 0x37}

// The states of ISO-2022-JP. stateEscaped is added after an escape sequence.
const (
	stateASCII = iota
	stateRoman
	stateKatakana
	statePairs
	stateEscaped = 4
)

// escapesJP are the escape sequences of ISO-2022-JP after the escape character.
var escapesJP = map[string]int{"(B": stateASCII, "(J": stateRoman, "(I": stateKatakana, "$@": statePairs, "$B": statePairs}

const escapeJP = 0x1b

// decodeJP decodes ISO-2022-JP, starting in a state. It returns the text, how
// many bytes it used, the state after them, and how many errors there were.
func decodeJP(b []byte, state int, more bool) (text string, used, next, errs int) {
	d := japanese.EUCJP.NewDecoder()
	euc := multibytes["euc-jp"]
	escaped := state&stateEscaped != 0
	state &^= stateEscaped
	var out []byte
	invalid := func() {
		out = utf8.AppendRune(out, utf8.RuneError)
		errs++
	}
	i := 0
	for ; i < len(b); i++ {
		c := b[i]
		if more && (c == escapeJP && i+2 >= len(b) || state == statePairs && within(c, 0x21, 0x7e) && i+1 == len(b)) {
			break
		}
		if c == escapeJP {
			to, known := stateASCII, false
			if i+2 < len(b) {
				to, known = escapesJP[string(b[i+1:i+3])]
			}
			if !known || escaped {
				invalid()
			}
			escaped = known
			if known {
				state = to
				i += 2
			}
			continue
		}
		escaped = false
		var ok bool
		if state != statePairs {
			out, ok = appendJP(out, state, c)
		} else if within(c, 0x21, 0x7e) && i+1 < len(b) && b[i+1] != escapeJP {
			i++
			if within(b[i], 0x21, 0x7e) {
				out, ok = euc.appendSequence(out, d, []byte{c | 0x80, b[i] | 0x80})
			}
		}
		if !ok {
			invalid()
		}
	}
	if escaped {
		state |= stateEscaped
	}
	return string(out), i, state, errs
}

// appendJP appends the character of a single byte, and reports whether the byte is
// valid.
func appendJP(out []byte, state int, c byte) ([]byte, bool) {
	switch {
	case state == stateKatakana && within(c, 0x21, 0x5f):
		return utf8.AppendRune(out, 0xff61-0x21+rune(c)), true
	case state == stateKatakana, c >= utf8.RuneSelf, c == 0x0e, c == 0x0f:
		return out, false
	case state == stateRoman && c == '\\':
		return append(out, "¥"...), true
	case state == stateRoman && c == '~':
		return append(out, "‾"...), true
	default:
		return append(out, c), true
	}
}
