package sentences

import (
	"regexp"
	"testing"
)

// translated are words and phrases that read as if they were translated. Use
// "again" or "new" for anew, "anyone who" for whoever, "no one" or a passive
// for nobody, "invalid" for is none, and put the actor first.
var translated = regexp.MustCompile(`(?i)\b(anew|whoever|somebody|nobody|who comes|told of|(is|are) none|` +
	`by who|others were faster|come to rest|that there are)\b`)

func TestWords(t *testing.T) {
	t.Parallel()
	for folder, texts := range collect(t) {
		for text := range texts {
			if found := translated.FindString(text); found != "" {
				t.Errorf("%s: %q has %q, which reads as translated: say it in plain words", folder, text, found)
			}
		}
	}
}
