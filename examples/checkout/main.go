// Command checkout is a shop that takes card payments in a web page. Its
// server never sees a card.
//
//	go run ./examples/checkout
//
// It prints the address of the shop. There are four servers, each on its own
// port: the shop, the vault, the vault's card fields, and an acquirer that moves no
// money. This is what happens to the card:
//
//   - The customer types it into a frame of package elements, which the shop's page
//     cannot read. The frame opens a session at the vault with a public key, which
//     alone cannot store a card. The page sends the session's nonce to the shop.
//   - The shop authorizes the session with its private key: to create tokens in
//     the container of this order, for one minute.
//   - The frame sends the card to the vault with the session's key. The page gets the
//     token, and sends it to the shop.
//   - The shop reads the masked token, and checks that it is a card of this
//     order. The token of another order cannot pay for it.
//   - The shop charges the card through a proxy of the vault, which replaces the
//     token with the card on the way to the acquirer. The order is paid only if
//     the acquirer itself responds with 200.
//
// A visitor who writes their own page can send anything, including a card
// with a mask that hides nothing. The shop rejects such a token and keeps
// nothing of it. A real shop also limits the orders and attempts of each client
// address, at its own server and with Options.RateLimit at the vault.
//
// Only pages of the shop's origin can show the frame. Someone who can change the
// page can still draw fake fields over it. So the page loads nothing else from
// elsewhere, and its content security policy allows no inline script.
//
// Everything is in memory and lost when the program ends.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/elements"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "checkout:", err)
		os.Exit(1)
	}
}

// run is the program. It ends when ctx is done.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	f := flag.NewFlagSet("checkout", flag.ContinueOnError)
	f.SetOutput(stderr)
	shopAddr := f.String("shop", "127.0.0.1:8081", "`address` of the shop")
	vaultAddr := f.String("vault", "127.0.0.1:8082", "`address` of the vault")
	fieldsAddr := f.String("elements", "127.0.0.1:8083", "`address` of the card fields")
	if err := f.Parse(args); err != nil {
		return err
	}
	var listeners []net.Listener
	for _, addr := range []string{*shopAddr, *vaultAddr, *fieldsAddr} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		defer func() { _ = l.Close() }()
		listeners = append(listeners, l)
	}
	at := addresses{originOf(listeners[0]), originOf(listeners[1]), originOf(listeners[2]), ""}
	acquirer := httptest.NewServer(&acquirer{})
	defer acquirer.Close()
	at.acquirer = acquirer.URL
	v, err := openVault(ctx, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	s, api, fields, err := newSite(ctx, v, at, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The shop is at %s, and its vault is at %s. Ctrl-C stops both.\n", at.shop, at.vault)
	return serve(ctx, map[net.Listener]http.Handler{listeners[0]: s.handler(), listeners[1]: api, listeners[2]: fields})
}

// addresses are the URLs of the four servers.
type addresses struct{ shop, vault, elements, acquirer string }

// originOf returns the web origin of a listener.
func originOf(l net.Listener) string { return "http://" + l.Addr().String() }

// openVault opens a vault in memory. Proxies may reach this machine, because
// the acquirer runs here. A real acquirer on the internet needs no such
// policy.
func openVault(ctx context.Context, now func() time.Time) (*vault.Vault, error) {
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, store, vault.NewKey(), &vault.Config{
		Now:    now,
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}},
	})
}

// newSite sets up a new vault for the shop, and returns the shop, the vault's API, and
// the card fields. No page may call the API, and only pages of the shop may show the
// fields.
func newSite(ctx context.Context, v *vault.Vault, at addresses, logger *slog.Logger) (s *shop, api, fields http.Handler, err error) {
	access, err := setUp(ctx, v, at.vault, at.acquirer)
	if err != nil {
		return nil, nil, nil, err
	}
	s = &shop{vault: access, elements: at.elements, orders: map[string]*order{}, logger: logger.With("server", "shop")}
	logger = logger.With("server", "vault")
	fields, err = elements.Handler(v, &elements.Options{Origins: []string{at.shop}, Tenant: access.tenant, Logger: logger})
	return s, httpserver.Handler(v, &httpserver.Options{Logger: logger}), fields, err
}

// Limits of a server.
const (
	readTimeout  = 10 * time.Second
	writeTimeout = time.Minute
	drainTimeout = 10 * time.Second
)

// serve serves until ctx ends or a server fails. Then it waits for the requests in
// progress.
func serve(ctx context.Context, handlers map[net.Listener]http.Handler) error {
	failed := make(chan error, len(handlers))
	var servers []*http.Server
	for listener, h := range handlers {
		s := &http.Server{Handler: h, ReadTimeout: readTimeout, WriteTimeout: writeTimeout}
		servers = append(servers, s)
		go func() { failed <- s.Serve(listener) }()
	}
	var err error
	select {
	case err = <-failed:
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	for _, s := range servers {
		err = errors.Join(err, s.Shutdown(drain))
	}
	return err
}

// acquirer is a fake payment company that moves no money. It accepts every card
// except one number, which it declines.
type acquirer struct{}

// declinedNumber is the number that the acquirer declines.
const declinedNumber = "4000000000000002"

// ServeHTTP responds with 200 if a card is charged, and with 402 if it is declined.
func (acquirer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var charge struct{ Card vault.CardData }
	switch err := readJSON(w, r, &charge); {
	case err != nil || charge.Card.Number == "":
		http.Error(w, "not a charge", http.StatusBadRequest)
	case charge.Card.Number == declinedNumber:
		w.WriteHeader(http.StatusPaymentRequired)
	}
}
