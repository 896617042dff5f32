package expr

import "strings"

func hidingFilters() []*filter {
	return []*filter{
		secretFilter("last4", func(_ *evaluator, in string, _ []arg) string { return suffix(in, 4) }),
		secretFilter("reveal_last", revealLast,
			required("length", countParam), or("char", charParam, "X")),
		secretFilter("reveal", reveal,
			required("first", countParam), or("last", countParam, 0), or("char", charParam, "X"), or("keep", textParam, "")),
		secretFilter("card_mask", cardMask,
			or("reveal_bin", flagParam, false), or("reveal_last4", flagParam, false), or("char", charParam, "X"), or("keep", textParam, "")),
		secretFilter("card_bin", cardBIN, or("separator", textParam, "")),
	}
}

// suffix returns the last n characters of s, or all of it.
func suffix(s string, n int) string {
	hidden := charCount(s) - n
	return s[len(prefix(s, hidden)):]
}

func revealLast(ev *evaluator, in string, args []arg) string {
	shown, char := args[0].n, args[1].text
	hidden := charCount(in)
	if hidden > shown {
		hidden -= shown
	}
	tail := in[len(prefix(in, hidden)):]
	size := hidden*len(char) + len(tail)
	ev.fits(size, len(in))
	var b strings.Builder
	b.Grow(size)
	writeTimes(&b, char, hidden)
	b.WriteString(tail)
	return b.String()
}

// writeTimes writes s n times, by doubling what it has written.
func writeTimes(b *strings.Builder, s string, n int) {
	start := b.Len()
	for size := n * len(s); size > 0; {
		piece := b.String()[start:]
		if piece == "" {
			piece = s
		}
		piece = piece[:min(len(piece), size)]
		b.WriteString(piece)
		size -= len(piece)
	}
}

func reveal(ev *evaluator, in string, args []arg) string {
	first, last, char, keep := args[0].n, args[1].n, args[2].text, args[3].text
	total := charCount(in)
	// Kept characters are visible anyway, so they do not count as hidden.
	kept := charsOf(ev, keep)
	if secretCount(ev, in, kept) <= first+last {
		first, last, kept = 0, 0, nil
	}
	return hide(ev, in, char, func(i int, c string) bool {
		return i < first || i >= total-last || kept[c]
	})
}

// eachChar calls do with every character of s and its position. It pays one
// step for charsPerStep characters.
func (ev *evaluator) eachChar(s string, charsPerStep int, do func(i int, c string)) {
	for i := 0; len(s) > 0; i++ {
		if i%charsPerStep == 0 {
			ev.spend(1)
		}
		width := charWidth(s)
		do(i, s[:width])
		s = s[width:]
	}
}

// The number of characters that are hidden, or looked up in a set, per step.
const (
	hiddenPerStep = 2
	keptPerStep   = 2
)

// charsOf returns the set of characters of s.
func charsOf(ev *evaluator, s string) map[string]bool {
	if s == "" {
		return nil
	}
	chars := make(map[string]bool)
	ev.eachChar(s, keptPerStep, func(_ int, c string) { chars[c] = true })
	return chars
}

// secretCount counts the characters of s that are not kept.
func secretCount(ev *evaluator, s string, kept map[string]bool) int {
	if kept == nil {
		return charCount(s)
	}
	n := 0
	ev.eachChar(s, keptPerStep, func(_ int, c string) {
		if !kept[c] {
			n++
		}
	})
	return n
}

// hide replaces every character of s with char, except where visible returns
// true for its position and the character.
func hide(ev *evaluator, s, char string, visible func(i int, c string) bool) string {
	size := max(len(s), charCount(s)*len(char))
	ev.fits(size, len(s))
	var b strings.Builder
	b.Grow(size)
	ev.eachChar(s, hiddenPerStep, func(i int, c string) {
		if visible(i, c) {
			b.WriteString(c)
		} else {
			b.WriteString(char)
		}
	})
	return b.String()
}

// cardView defines which digits of a card number are visible, by their position
// among the digits: those before first, and those from last on.
type cardView struct{ first, last int }

// viewCard fails closed: a number with no more digits than would be revealed
// shows none of them.
func viewCard(s string, revealBIN, revealLast4 bool) cardView {
	digits := digitCount(s)
	shownFirst, shownLast := 0, 0
	if revealBIN {
		shownFirst = binLength(digits)
	}
	if revealLast4 {
		shownLast = 4
	}
	if digits <= shownFirst+shownLast {
		return cardView{first: 0, last: digits}
	}
	return cardView{first: shownFirst, last: digits - shownLast}
}

func (v cardView) shows(digit int) bool { return digit < v.first || digit >= v.last }

// binLength returns the length of the BIN of a card number with the given
// number of digits.
func binLength(digits int) int {
	if digits >= 16 {
		return 8
	}
	return 6
}

func isDigit(c string) bool { return len(c) == 1 && c[0] >= '0' && c[0] <= '9' }

func digitCount(s string) int {
	n := 0
	for i := range len(s) {
		if isDigit(s[i : i+1]) {
			n++
		}
	}
	return n
}

func cardMask(ev *evaluator, in string, args []arg) string {
	view, char := viewCard(in, args[0].yes, args[1].yes), args[2].text
	kept := charsOf(ev, args[3].text)
	digit := -1
	return hide(ev, in, char, func(_ int, c string) bool {
		if isDigit(c) {
			digit++
			return view.shows(digit) || kept[c]
		}
		return kept[c]
	})
}

// cardBIN fails for a value without digits beyond the BIN, because that would
// reveal all of it.
func cardBIN(ev *evaluator, in string, args []arg) string {
	total := digitCount(in)
	length := binLength(total)
	if total <= length+4 {
		panic(faultf("needs a card number, with more digits than the BIN and the last four have together"))
	}
	separator := args[0].text
	ev.fits(length+len(separator), 0)
	var b strings.Builder
	for i, digit := 0, 0; digit < length; i++ {
		if !isDigit(in[i : i+1]) {
			continue
		}
		if digit > 0 && digit%4 == 0 {
			b.WriteString(separator)
		}
		b.WriteByte(in[i])
		digit++
	}
	return b.String()
}
