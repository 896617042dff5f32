package keyring

import (
	"net/url"
	"path"
	"strings"
)

const hidden = "xxxxx"

// shownParameters are the parameters of a URI whose values are shown.
var shownParameters = map[string]bool{
	"region": true, "profile": true, "endpoint": true, "hostname_immutable": true, "algorithm": true, "root": true,
}

// ShownURI returns what may be shown of the URI of a key: the program of an exec: line
// without its arguments, and any other URI without its user, with the values of known
// parameters only. Of a malformed URI it shows nothing.
func ShownURI(uri string) string {
	if line, ok := strings.CutPrefix(uri, "exec:"); ok {
		words := strings.Fields(line)
		if len(words) == 0 {
			return "exec:"
		}
		return "exec:" + path.Base(words[0])
	}
	u, err := url.Parse(uri)
	if err != nil || u.Opaque != "" {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if u.User != nil {
		shown.User = url.User(hidden)
	}
	for name, values := range query {
		for i := range values {
			if !shownParameters[name] || name == "endpoint" && strings.ContainsAny(values[i], "@?") {
				values[i] = hidden
			}
		}
	}
	shown.RawQuery = query.Encode()
	return shown.String()
}
