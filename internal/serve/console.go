package serve

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/console"
	"github.com/seed-72ea4aab/vault/internal/terminal"
)

// consoleFlags configure the address and the users of the console.
type consoleFlags struct {
	addr     string   // listen address; empty for no console
	url      string   // base URL at a proxy in front
	linkFile string   // file for the link, instead of the terminal
	header   string   // header in which a proxy names the user
	role     string   // role of the users in that header
	proxies  networks // trusted to set that header
	oidc     oidcFlags
}

func (c *consoleFlags) flags(f *flag.FlagSet) {
	f.StringVar(&c.addr, "console", c.addr, "`address` of the console, such as 127.0.0.1:8081; empty for none. tokenvault console link signs in")
	f.StringVar(&c.url, "console-url", "", "`URL` of the console behind a proxy, for its links; with https, its cookies require TLS")
	f.StringVar(&c.linkFile, "console-link-file", "", "`file` for a link that signs in once; it gets mode 0600, and a new link after each session")
	f.StringVar(&c.header, "console-header", "", "`name` of a header in which a proxy names the user that it has authenticated")
	f.StringVar(&c.role, "console-header-role", "viewer", "`role` of these users: viewer, operator or owner")
	f.Func("console-proxies", "`addresses` or networks of proxies whose header is trusted, separated by commas; by default this machine's", c.proxies.set)
	c.oidc.flags(f)
}

// check checks the flags of the console.
func (c *consoleFlags) check() error {
	if c.addr == "" {
		if c.url != "" || c.linkFile != "" || c.header != "" || len(c.proxies) > 0 || c.oidc.issuer != "" {
			return errors.New("--console-url, --console-link-file, --console-header, --console-proxies and --console-oidc need --console")
		}
		return nil
	}
	if err := checkAddress("--console", c.addr); err != nil {
		return err
	}
	if c.header == "" && len(c.proxies) > 0 {
		return errors.New("--console-proxies needs --console-header")
	}
	if c.header != "" && c.linkFile != "" || c.oidc.issuer != "" && (c.header != "" || c.linkFile != "") {
		return errors.New("--console-header, --console-link-file and --console-oidc are ways to sign in: give one of them")
	}
	if err := c.oidc.check(c.url); err != nil {
		return err
	}
	if _, err := ParseRole(c.role); err != nil {
		return fmt.Errorf("--console-header-role: %w", err)
	}
	return checkConsoleURL(c.url)
}

func checkConsoleURL(text string) error {
	at, err := url.Parse(text)
	if text != "" && (err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" || at.RawQuery != "" || at.Fragment != "") {
		return errors.New("--console-url must be a URL such as https://console.example.com/")
	}
	return nil
}

// ParseRole returns the role with this name.
func ParseRole(name string) (console.Role, error) {
	for _, role := range []console.Role{console.Viewer, console.Operator, console.Owner} {
		if role.String() == name {
			return role, nil
		}
	}
	return 0, errors.New("a role is viewer, operator or owner")
}

// errNoHeader means that no trusted proxy names the user of a request.
var errNoHeader = errors.New("serve: no proxy names the user of the request")

// byHeader returns an Authorize that takes the user from the header of a proxy.
func (c *consoleFlags) byHeader() func(*http.Request) (console.User, error) {
	proxies := c.proxies
	if len(proxies) == 0 {
		proxies = networks{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	}
	role, _ := ParseRole(c.role)
	return func(r *http.Request) (console.User, error) {
		from, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return console.User{}, errNoHeader
		}
		addr := from.Addr().Unmap()
		values := r.Header.Values(c.header)
		believed := slices.ContainsFunc(proxies, func(n netip.Prefix) bool { return n.Contains(addr) })
		if !believed || len(values) != 1 || values[0] == "" {
			return console.User{}, errNoHeader
		}
		return console.User{ID: values[0], Role: role}, nil
	}
}

// consolePages is the console of a server. It has its own listener, because
// tenants control the responses that proxies relay. A page on the API's origin
// could use the console with the rights of the signed-in user.
type consolePages struct {
	consoleFlags
	recorder *console.Recorder
	link     *console.Link
	signIn   SignIn // nil without --console-oidc
	base     string // the URL of the console, with a slash at its end
	show     func(link string)
	pages    http.Handler
}

// newConsole returns the console that the flags configure, or nil.
func newConsole(cfg *Config) *consolePages {
	if cfg.consoleFlags.addr == "" || cfg.newTenant != "" || cfg.rotateKeys != "" {
		return nil
	}
	c := &consolePages{consoleFlags: cfg.consoleFlags, recorder: console.NewRecorder(), link: console.NewLink(console.User{ID: "console", Role: console.Owner})}
	c.link.TLSProxy = strings.HasPrefix(c.url, "https://")
	return c
}

// server returns the server of the console, whose pages are at base. Links that
// are sealed under the [LinkKey] sign users in.
func (c *consolePages) server(v *vault.Vault, key vault.AEAD, base string, logger *slog.Logger) *http.Server {
	stop := make(chan struct{})
	c.base = strings.TrimSuffix(base, "/") + "/"
	options := &console.Options{TLSProxy: c.link.TLSProxy, Recorder: c.recorder, Stop: stop, Logger: logger}
	switch {
	case c.signIn != nil:
		options.Authorize, options.SignOut = c.signIn.Authorize, c.signIn.SignOut
		c.pages = c.signIn.Handler(console.Handler(v, options))
	case c.header != "":
		options.Authorize = c.byHeader()
		c.pages = console.Handler(v, options)
	default:
		options.Authorize, options.SignOut = c.link.Authorize, c.link.SignOut
		c.link.Accept = newLinkReader(key).accept
		c.pages = c.link.Handler(console.Handler(v, options))
	}
	srv := newServer(c, logger)
	srv.RegisterOnShutdown(func() { close(stop) }) // end the streams of open pages
	return srv
}

// consoleInClear reports whether other machines can reach the console without TLS.
func (c *Config) consoleInClear() bool {
	return c.tlsCert == "" && !strings.HasPrefix(c.consoleFlags.url, "https://") && !isLocal(c.consoleFlags.addr)
}

// isLocal reports whether only this machine can reach a listen address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip, notIP := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notIP == nil && ip.IsLoopback())
}

// banner prints the address of the console. The link appears where only the person
// who started the server sees it: on a terminal, or in a file with mode 0600. The
// output of a service goes to logs, which more people read.
func (c *consolePages) banner(w io.Writer, p terminal.Palette, always bool, logger *slog.Logger) {
	if c == nil {
		return
	}
	_, person := terminal.Columns(w)
	switch {
	case c.header != "" || c.signIn != nil:
		fmt.Fprintf(w, "%s %s\n", p.Bold("The console is at"), p.Link(c.base))
	case c.linkFile != "":
		c.show = func(link string) {
			if err := ReplaceFile(c.linkFile, strings.NewReader(link+"\n").WriteTo); err != nil {
				logger.Error("the link of the console cannot be written", "error", err)
			}
		}
		c.show(c.link.URL(c.base))
		fmt.Fprintf(w, "%s %s, with the link in %s\n", p.Bold("The console is at"), p.Link(c.base), c.linkFile)
	case always || person:
		c.show = func(link string) {
			fmt.Fprintf(w, "The session at the console is over. It opens once more at %s\n", link)
		}
		fmt.Fprintf(w, "%s %s\n", p.Bold("The console opens once at"), p.Link(c.link.URL(c.base)))
	default:
		fmt.Fprintf(w, "%s %s; tokenvault console link signs in\n", p.Bold("The console is at"), p.Link(c.base))
	}
}

// ServeHTTP serves the pages. On a request after the link's session has ended, it
// prints a new link.
func (c *consolePages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c.show != nil {
		if link, ok := c.link.Renew(c.base); ok {
			c.show(link)
		}
	}
	c.pages.ServeHTTP(w, r)
}
