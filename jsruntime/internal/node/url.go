package node

import (
	"github.com/dop251/goja"
	"github.com/nlnwa/whatwg-url/url"
	"golang.org/x/net/idna"

	"github.com/seed-72ea4aab/vault/jsruntime/internal/native"
)

var urlNatives = map[string]nativeFunc{
	"url.parse": (*Execution).urlParse,
	"url.set":   (*Execution).urlSet,
	"url.unicode": func(c *Execution, args []goja.Value) goja.Value {
		text, err := idna.ToUnicode(native.Arg(args, 0).String())
		if err != nil {
			return native.Arg(args, 0)
		}
		return c.VM.ToValue(text)
	},
}

// urlParse takes a URL and, if it is relative, its base. It returns the parts
// of the URL, or undefined if it is not valid.
func (c *Execution) urlParse(args []goja.Value) goja.Value {
	var u *url.Url
	var err error
	if base := native.Arg(args, 1); goja.IsUndefined(base) {
		u, err = url.Parse(native.Arg(args, 0).String())
	} else {
		u, err = url.ParseRef(base.String(), native.Arg(args, 0).String())
	}
	if err != nil {
		return goja.Undefined()
	}
	return c.urlParts(u)
}

var urlSetters = map[string]func(u *url.Url, value string){
	"protocol": (*url.Url).SetProtocol, "username": (*url.Url).SetUsername, "password": (*url.Url).SetPassword,
	"host": (*url.Url).SetHost, "hostname": (*url.Url).SetHostname, "port": (*url.Url).SetPort,
	"pathname": (*url.Url).SetPathname, "search": (*url.Url).SetSearch, "hash": (*url.Url).SetHash,
}

// urlSet takes a URL, the name of a part and its new value.
func (c *Execution) urlSet(args []goja.Value) goja.Value {
	u, err := url.Parse(native.Arg(args, 0).String())
	if err != nil {
		return goja.Undefined()
	}
	if set := urlSetters[native.Arg(args, 1).String()]; set != nil {
		set(u, native.Arg(args, 2).String())
	}
	return c.urlParts(u)
}

func (c *Execution) urlParts(u *url.Url) goja.Value {
	origin := "null"
	switch u.Protocol() {
	case "http:", "https:", "ws:", "wss:", "ftp:":
		origin = u.Protocol() + "//" + u.Host()
	}
	o := c.VM.NewObject()
	for _, part := range []struct{ name, value string }{
		{"href", u.Href(false)}, {"origin", origin}, {"protocol", u.Protocol()}, {"username", u.Username()},
		{"password", u.Password()}, {"host", u.Host()}, {"hostname", u.Hostname()}, {"port", u.Port()},
		{"pathname", u.Pathname()}, {"search", u.Search()}, {"hash", u.Hash()},
	} {
		c.Set(o, part.name, part.value)
	}
	return o
}
