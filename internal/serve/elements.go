package serve

import (
	"errors"
	"flag"
	"log/slog"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/httpserver"
)

// elementsFlags configure fields for web pages. They have their own listener, because
// their origin must serve nothing else.
type elementsFlags struct {
	addr      string // listen address; empty for none
	origins   List
	authorize string
	tenant    string
	showBIN   bool
}

func (e *elementsFlags) flags(f *flag.FlagSet) {
	f.StringVar(&e.addr, "elements", "", "`address` of card fields for web pages, such as 127.0.0.1:8090; off if empty")
	f.Func("elements-origins", "`origins` of the pages with card fields, such as https://shop.example, separated by commas", e.origins.Set)
	f.StringVar(&e.authorize, "elements-authorize", "", "`URL` of your server, which authorizes the frames that reveal a value; of the same site as the elements")
	f.StringVar(&e.tenant, "elements-tenant", "", "`id` of the only tenant whose keys the card fields take; any tenant if empty")
	f.BoolVar(&e.showBIN, "elements-show-bin", false, "show pages the first six digits of a complete card number")
}

// check checks the flags.
func (e *elementsFlags) check(prefix string) error {
	if e.addr == "" {
		if len(e.origins) > 0 || e.authorize != "" || e.tenant != "" || e.showBIN {
			return errors.New("--elements-origins, --elements-authorize, --elements-tenant and --elements-show-bin need --elements")
		}
		return nil
	}
	if err := checkAddress("--elements", e.addr); err != nil {
		return err
	}
	if _, err := uuid.Parse(e.tenant); e.tenant != "" && err != nil {
		return errors.New("--elements-tenant takes the id of a tenant")
	}
	if len(e.origins) == 0 {
		return errors.New("--elements needs --elements-origins: the origins of your pages, such as https://shop.example")
	}
	if err := e.options(&httpserver.Options{Prefix: prefix}).Check(); err != nil {
		return errors.New(elementsNames.Replace(err.Error()))
	}
	return nil
}

// elementsNames replaces the Go names of settings in errors by the names of flags.
var elementsNames = strings.NewReplacer("elements: ", "", "Options.Origins", "--elements-origins", "Options.AuthorizeURL", "--elements-authorize")

// options returns the options of the elements, with the limits of the API.
func (e *elementsFlags) options(api *httpserver.Options) *elements.Options {
	tenant, _ := uuid.Parse(e.tenant) // zero if empty
	return &elements.Options{
		Origins: e.origins, AuthorizeURL: e.authorize, Tenant: tenant, ShowBIN: e.showBIN, Logger: api.Logger, Prefix: api.Prefix,
		TrustedProxies: api.TrustedProxies, RateLimit: api.RateLimit, Observer: api.Observer, Drain: api.Drain,
	}
}

// serve makes an endpoint serve elements.
func (e *elementsFlags) serve(at *endpoint, v *vault.Vault, api *httpserver.Options, logger *slog.Logger) error {
	h, err := elements.Handler(v, e.options(api))
	if err != nil {
		return err
	}
	at.server = newServer(h, logger)
	logger.Info("the elements are listening", "address", at.address())
	if e.tenant == "" {
		logger.Warn("the elements take the keys of every tenant: give --elements-tenant, unless you trust all tenants")
	}
	return nil
}
