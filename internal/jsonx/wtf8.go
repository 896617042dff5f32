package jsonx

import "unicode/utf8"

// A JSON string may contain half of a surrogate pair, which UTF-8 cannot
// encode. Strings are therefore kept in WTF-8: UTF-8, plus lone surrogates in
// the three bytes that the same scheme would give them. Pairs of surrogates are
// always joined into one character.

const (
	surrogateMin = 0xD800
	surrogateLow = 0xDC00
	surrogateMax = 0xDFFF
)

// IsSurrogate reports whether r is half of a surrogate pair.
func IsSurrogate(r rune) bool { return r >= surrogateMin && r <= surrogateMax }

// DecodeRune returns the first character of s and its width in bytes, like
// [utf8.DecodeRuneInString], but also decodes lone surrogates.
func DecodeRune(s string) (r rune, width int) {
	r, width = utf8.DecodeRuneInString(s)
	if r == utf8.RuneError && width == 1 && isEncodedSurrogate(s) {
		return rune(s[0]&0x0F)<<12 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F), 3
	}
	return r, width
}

func isEncodedSurrogate(s string) bool {
	return len(s) >= 3 && s[0] == 0xED && s[1] >= 0xA0 && s[1] <= 0xBF && s[2]&0xC0 == 0x80
}

// AppendRune appends the encoding of r, like [utf8.AppendRune], but also
// encodes lone surrogates.
func AppendRune(dst []byte, r rune) []byte {
	if IsSurrogate(r) {
		return append(dst, 0xE0|byte(r>>12), 0x80|byte(r>>6)&0xBF, 0x80|byte(r)&0xBF)
	}
	return utf8.AppendRune(dst, r)
}

// validWTF8 returns s with adjacent surrogates joined and every other invalid
// byte replaced by U+FFFD.
func validWTF8(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	dst := make([]byte, 0, len(s)+8)
	for len(s) > 0 {
		r, width := DecodeRune(s)
		s = s[width:]
		if r >= surrogateMin && r < surrogateLow {
			if low, w := DecodeRune(s); low >= surrogateLow && low <= surrogateMax {
				r = joinSurrogates(r, low)
				s = s[w:]
			}
		}
		dst = AppendRune(dst, r)
	}
	return string(dst)
}

func joinSurrogates(high, low rune) rune {
	return 0x10000 + (high-surrogateMin)<<10 + (low - surrogateLow)
}
