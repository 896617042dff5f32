package keyring

import (
	"net/url"
	"regexp"
	"strings"
)

// secretName matches the names of parameters whose values are not shown.
var secretName = regexp.MustCompile(`(?i)key|token|password|secret|signature|pin`)

const hidden = "xxxxx"

// ShownURI returns the URI of a key without passwords and tokens.
func ShownURI(uri string) string {
	if program, ok := strings.CutPrefix(uri, "exec:"); ok {
		words := strings.Split(program, " ")
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
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hidden)
	}
	query := u.Query()
	for name := range query {
		if secretName.MatchString(name) {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	return u.String()
}
