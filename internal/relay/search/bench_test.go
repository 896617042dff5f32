package search

import (
	"io"
	"strings"
	"testing"
)

// The search costs the same for text that is the start of a secret, and stays linear
// in text that is hard to decode.
func BenchmarkSearch(b *testing.B) {
	f := New([]Secret{{Text: "sk_live_51H8xYz2eZvKYlo2CabcdefghA", Instead: instead}, {Text: "4242424242424242", Instead: instead}}, spacesAlike)
	for name, text := range map[string]string{
		"plain": "the quick brown fox jumps over the lazy dog ", "starts": "sk_live_51H8xYz2eZvKYlo2Cabcdefg", "wrong starts": "qq_quqq_51Q8qYq2qQqQQQqq2Qqqqqqq",
		"JSON": `{"id":"ch_1A2b3C","amount":4200,"text":"a \"quoted\"\n line","card":{"last4":"4242"}},`, "escapes": `\%25`, "secrets": "4242424242424242",
	} {
		text = strings.Repeat(text, 4<<20/len(text))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				_, _ = io.Copy(io.Discard, f.Reader(strings.NewReader(text))) // cannot fail
			}
		})
	}
}
