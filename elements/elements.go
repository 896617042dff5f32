// Package elements serves fields for a web page that cannot read what is typed
// into them.
//
//	h, err := elements.Handler(v, &elements.Options{Origins: []string{"https://shop.example"}})
//	http.ListenAndServe(addr, h) // https://elements.shop.example
//
// The page loads one script and uses custom elements:
//
//	<script src="https://elements.shop.example/elements.js"></script>
//	<vault-card api-key="key_pub_..."></vault-card>
//
// Each element holds one frame from this handler. Serve the handler on an origin of
// its own: never on the origin of the page, of the API, or of the console.
//
// # Threat model
//
// No script of the page gets a digit that was typed into the frame, or a character of
// a revealed value, beyond last4 and, with [Options.ShowBIN], six digits of bin.
//
// The page may be hostile from its first line. It may have replaced every function of
// its own realm before elements.js loads. So elements.js holds no secret. Digits and
// session keys exist in the frame's realm and on this server only. Between the two
// realms there is one MessagePort. The frame sends a fixed vocabulary through it, and
// builds each value from an allow list of types and lengths.
//
// # What the page can observe
//
//   - Messages and events: states of fields, the brand, and last4 once the number is
//     complete and valid. An event is sent when a state changes, not for each key.
//   - The same characters twice: a page could tokenize after each key and collect the
//     ends of all prefixes. A frame therefore shows the end of one value. It hides the
//     end of a longer or shorter value with the same beginning, and the end of a number
//     of unusual length until the user has left the field.
//   - The brand tells the ranges of its numbers: a Visa begins with 4. The page gets it
//     with the sixth digit, and not with the digit that decides it.
//   - User activation: browsers report it to the pages around a frame, so a page can
//     count key presses. It cannot see which keys they are.
//   - Errors: one of six codes, and codes of fields. They never hold a value.
//   - URL, name, attributes, properties: the frame's URL is constant. The frame never
//     navigates, and has no name.
//   - Size: fields have a fixed height, so the frame's height depends on labels and
//     messages only. A <vault-reveal> has a fixed height and sends no size. It always
//     scrolls a little, so neither Tab nor a wheel reveals the value's length. A path
//     without a value is no error, because it would tell which fields the data has.
//   - The caret: browsers scroll a page to the caret in a frame, so a page that shows a
//     small part of the frame can measure each character. All characters of an input
//     have the same width. A font in which they differ is replaced.
//   - Scrolling, selection, window.length, performance entries: the browser separates
//     origins. A header requests a separate agent cluster for the frame.
//   - Policy reports: the frame's policy has no report address.
//   - Drag and drop, clipboard: the frame cancels drags, copies and cuts. A copy
//     button exists with [Options.Copy] only.
//   - Autofill: one frame holds the whole form, so no value passes through the page.
//   - The back-forward cache: it keeps the frame's document, which stays another origin.
//   - Focus: a page can take the focus, or draw over the frame. Nobody can prevent
//     that. docs/elements.md describes what a shop can do.
//
// # Guesses
//
// The page holds the public key, and knows bin, last4 and the check digit. At most
// 100,000 numbers are left, so nothing may confirm one of them.
//
//   - A token that is made here has a random fingerprint. It depends on nothing in the
//     data, so a later create, import or PATCH with deduplication never finds it. It
//     also makes the token itself search for no duplicate.
//   - Id, mask, search indexes, fingerprint expression and deduplication cannot be
//     chosen here. So there is no id that depends on data, and no taken id.
//   - A response has id, type, data, containers, metadata and times. It never has a
//     fingerprint.
//   - A public key can replace the data of a token with token:update, but the API
//     compares nothing. A new mask, index or fingerprint expression over data that stays
//     needs reveal access. A PATCH through this handler changes the cvc and metadata only.
//   - An import compares contents for callers that may read the token. A public key may
//     not.
//   - Nothing on these paths looks up a value, so time tells nothing.
//
// Keys of any tenant are accepted, unless [Options.Tenant] is set. Set it if the vault
// has tenants that you do not trust. Otherwise a hostile script can use its own
// tenant's public key, and that tenant can read the card.
package elements

import (
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/publicsuffix"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// Options configures a [Handler].
type Options struct {
	// Origins lists the web origins whose pages may use elements, such as
	// "https://shop.example". At least one is required. "*" is not allowed.
	Origins []string

	// AuthorizeURL is an address of the application's own server. The frame of a
	// <vault-reveal> sends {"nonce", "token"} there, with cookies. The server decides
	// whether its user may see the token, and authorizes the session. The host must be
	// of the same site as the elements' origin. Without it nothing is revealed.
	AuthorizeURL string

	// Tenant, if set, is the only tenant whose keys are accepted.
	Tenant uuid.UUID

	// ShowBIN lets the page see the first six digits of a complete card number.
	ShowBIN bool

	// Copy adds a button to <vault-reveal> that copies the value. A page that may read
	// the clipboard can then read the value.
	Copy bool

	// Networks returns the networks of a co-badged card by its first six or eight
	// digits, such as "cartes_bancaires" and "visa". The frame lets the buyer choose if
	// there is more than one. Default: no card is co-badged.
	Networks func(bin string) []string

	// Logger is the Logger of [httpserver.Options].
	Logger *slog.Logger

	// Prefix starts the name of each of the API's headers. Default "SVC-".
	Prefix string

	// TrustedProxies, RateLimit, Observer and Drain work as in [httpserver.Options].
	// Give the same values as to the API, so that limits count for both.
	TrustedProxies []netip.Prefix
	RateLimit      func(r *http.Request, c *vault.Client, cost int) (retryAfter time.Duration, ok bool)
	Observer       httpserver.Observer
	Drain          *httpserver.Drain
}

// Check returns an error for invalid options.
func (o *Options) Check() error {
	if o == nil || len(o.Origins) == 0 {
		return errors.New("elements: Options.Origins is empty; list the origins of your pages, such as https://shop.example")
	}
	for _, origin := range o.Origins {
		if err := checkOrigin(origin); err != nil {
			return err
		}
	}
	if err := o.api(nil).Check(); err != nil {
		return fmt.Errorf("elements: %w", err)
	}
	_, err := o.authorizeURL()
	return err
}

// originText is how browsers write an origin.
var originText = regexp.MustCompile(`^https?://([a-z0-9-]+(\.[a-z0-9-]+)*|\[[0-9a-f:.]+\])(:[1-9][0-9]{0,4})?$`)

// checkOrigin rejects text that no browser sends as an origin.
func checkOrigin(origin string) error {
	switch {
	case origin == "*":
		return errors.New("elements: * in Options.Origins would let every page on the web use the fields; list your own origins")
	case !originText.MatchString(origin),
		strings.HasPrefix(origin, "https:") && strings.HasSuffix(origin, ":443"),
		strings.HasPrefix(origin, "http:") && strings.HasSuffix(origin, ":80"):
		return fmt.Errorf("elements: %q in Options.Origins is not an origin; write it like https://shop.example, in lower case, without a path and without a default port", origin)
	}
	return nil
}

// authorizeURL returns AuthorizeURL, or nil without one.
func (o *Options) authorizeURL() (*url.URL, error) {
	if o.AuthorizeURL == "" {
		return nil, nil
	}
	u, err := url.Parse(o.AuthorizeURL)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())) ||
		checkOrigin(u.Scheme+"://"+u.Host) != nil {
		return nil, errors.New("elements: Options.AuthorizeURL must be an https URL such as https://shop.example/authorize, without a user, a query or a fragment")
	}
	return u, nil
}

// isLocal reports whether a host is this machine, where browsers trust http.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// siteOf returns the site of a host: its registrable domain. It is empty for an address, and
// for a host that has none, such as localhost; then only the host itself is of its site.
func siteOf(host string) string {
	if net.ParseIP(host) != nil {
		return ""
	}
	site, _ := publicsuffix.EffectiveTLDPlusOne(host) // empty with an error
	return site
}

// Integrity returns the integrity of elements.js, for the attribute integrity of
// <script>. It changes with each version of the script.
func Integrity() string {
	sum := sha512.Sum384(file("elements.js"))
	return "sha384-" + base64.StdEncoding.EncodeToString(sum[:])
}
