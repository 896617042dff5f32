package keyring

import (
	"net/url"
	"regexp"
	"strings"
)

// secretName matches the names of parameters whose values are not shown.
var secretName = regexp.MustCompile(`(?i)key|token|password|secret|signature|pin`)

const hidden = "xxxxx"

// ShownURI returns the URI of a key without users, passwords and tokens. Of a
// malformed URI it shows nothing.
func ShownURI(uri string) string {
	if program, ok := strings.CutPrefix(uri, "exec:"); ok {
		words := strings.Fields(program)
		for i := 1; i < len(words); i++ {
			name, _, ok := strings.Cut(words[i], "=")
			switch {
			case ok && secretName.MatchString(name):
				words[i] = name + "=" + hidden
			case !ok && strings.HasPrefix(words[i-1], "-") && !strings.Contains(words[i-1], "=") && secretName.MatchString(words[i-1]):
				words[i] = hidden
			}
		}
		return "exec:" + strings.Join(words, " ")
	}
	u, err := url.Parse(uri)
	if err != nil {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	for name := range query {
		if secretName.MatchString(name) {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	return u.String()
}
