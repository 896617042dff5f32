package search

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// kind is a way to write text. A further way needs its own method of decoder, and a
// maxWidth that fits.
type kind uint8

// The ways to write text. The search for words takes a plus for a space.
const (
	escapes  kind = iota // JSON escapes
	percents             // percent-encoding
)

var kinds = []kind{escapes, percents}

// Bounds of the ways to write text.
const (
	// maxLevel is how many ways to write text around each other are read.
	maxLevel = 2
	// maxShort is how many bytes fewer a text has after one level, for each special
	// byte in it: six bytes (\u0034) become one.
	maxShort = 5
	// maxWidth is the most bytes that all levels turn into one. A character outside
	// of the basic plane takes twice as many, and has four bytes.
	maxWidth = 6 * 6
	maxChar  = 2 * maxWidth
)

// isSpecial reports whether a byte begins something in one of the ways.
func isSpecial(b byte) bool { return b == '\\' || b == '%' }

// hasSpecial reports whether a text has a special byte.
func hasSpecial(text []byte) bool {
	return bytes.IndexByte(text, '\\') >= 0 || bytes.IndexByte(text, '%') >= 0
}

// units are bytes of decoded text. Each has the number of bytes of the original text
// that it stands for. The bytes of one character follow its first byte with width 0.
type units struct {
	text  []byte
	width []uint8
}

func (u *units) clear() { u.text, u.width = u.text[:0], u.width[:0] }

func (u *units) add(b byte, width uint8) {
	u.text, u.width = append(u.text, b), append(u.width, width)
}

// decoder decodes one way to write text. Text that it does not understand passes
// unchanged.
type decoder struct {
	kind    kind
	pending [12]byte  // the start of an escape; at most two \u with four digits
	widths  [12]uint8 // of pending
	n       int
	out     units
}

// lead returns the byte that escapes begin with.
func (d *decoder) lead() byte {
	if d.kind == escapes {
		return '\\'
	}
	return '%'
}

// decode decodes the next part of the text into out.
func (d *decoder) decode(in units) {
	d.out.clear()
	lead := d.lead()
	for i := 0; i < len(in.text); {
		if d.n == 0 && in.text[i] != lead { // up to the next escape everything passes
			end := bytes.IndexByte(in.text[i:], lead)
			if end < 0 {
				end = len(in.text) - i
			}
			d.out.text = append(d.out.text, in.text[i:i+end]...)
			d.out.width = append(d.out.width, in.width[i:i+end]...)
			if i += end; i == len(in.text) {
				return
			}
		}
		d.put(in.text[i], in.width[i])
		i++
	}
}

// finish lets an escape that the end of the text cuts off pass.
func (d *decoder) finish() {
	d.out.clear()
	for d.n > 0 {
		if d.n >= 6 {
			d.emit(d.code(0), 6)
		} else {
			d.again()
		}
	}
}

// put decodes one byte.
func (d *decoder) put(b byte, width uint8) {
	if d.n == 0 && b != d.lead() {
		d.out.add(b, width)
		return
	}
	d.pending[d.n], d.widths[d.n] = b, width
	d.n++
	if d.kind == escapes {
		d.escape()
	} else {
		d.percent()
	}
}

// percent decodes % and two digits.
func (d *decoder) percent() {
	last := digit(d.pending[d.n-1])
	switch {
	case d.n == 1:
	case last < 0:
		d.again()
	case d.n == 3:
		d.out.add(byte(digit(d.pending[1])<<4|last), d.widths[0]+d.widths[1]+d.widths[2])
		d.n = 0
	}
}

// letters has what an escape of one letter means, or 0.
var letters = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape decodes an escape that is complete, and passes on text that is no escape.
// The first half of a surrogate pair waits for the second.
func (d *decoder) escape() {
	last, digitAt := d.pending[d.n-1], (d.n-1)%6 // in \uXXXX
	if d.n == 1 {
		return
	}
	fits := digitAt == 0 && last == '\\' || digitAt == 1 && last == 'u' || digitAt > 1 && digit(last) >= 0
	switch {
	case d.n == 2 && letters[last] != 0:
		d.out.add(letters[last], d.widths[0]+d.widths[1])
		d.n = 0
	case !fits && d.n <= 6:
		d.again()
	case !fits: // the first half alone
		d.emit(d.code(0), 6)
	case d.n == 6 && !(utf16.IsSurrogate(d.code(0)) && d.code(0) < 0xDC00):
		d.emit(d.code(0), 6)
	case d.n == 12:
		if r := utf16.DecodeRune(d.code(0), d.code(6)); r != utf8.RuneError {
			d.emit(r, 12)
		} else {
			d.emit(d.code(0), 6)
		}
	}
}

// code returns the number of the \u escape that begins at a position.
func (d *decoder) code(at int) rune {
	r := rune(0)
	for _, b := range d.pending[at+2 : at+6] {
		r = r<<4 | rune(digit(b))
	}
	return r
}

// emit adds the character that the first n pending bytes stand for, and reads the
// others again.
func (d *decoder) emit(r rune, n int) {
	var text [utf8.UTFMax]byte
	size := utf8.EncodeRune(text[:], r)
	if utf16.IsSurrogate(r) { // in the form in which package jsonx keeps it
		text, size = [utf8.UTFMax]byte{0xE0 | byte(r>>12), 0x80 | byte(r>>6)&0x3F, 0x80 | byte(r)&0x3F}, 3
	}
	width := uint8(0)
	for _, w := range d.widths[:n] {
		width += w
	}
	for _, b := range text[:size] {
		d.out.add(b, width)
		width = 0
	}
	d.reread(n)
}

// again adds the first pending byte unchanged, and reads the others again.
func (d *decoder) again() {
	d.out.add(d.pending[0], d.widths[0])
	d.reread(1)
}

// reread reads the pending bytes after the first n again.
func (d *decoder) reread(n int) {
	text, widths, end := d.pending, d.widths, d.n
	d.n = 0
	for i := n; i < end; i++ {
		d.put(text[i], widths[i])
	}
}

// digit returns the value of a hexadecimal digit, or -1.
func digit(b byte) int {
	switch {
	case b >= '0' && b <= '9':
		return int(b - '0')
	case b >= 'a' && b <= 'f':
		return int(b-'a') + 10
	case b >= 'A' && b <= 'F':
		return int(b-'A') + 10
	default:
		return -1
	}
}
