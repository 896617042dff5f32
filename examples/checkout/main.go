// Command checkout is a shop that takes card payments in a web page. Its
// server never sees a card.
//
//	go run ./examples/checkout
//
// It prints the address of the shop. There are three servers, each on its own
// port: the shop, the vault, and an acquirer that moves no money. This is
// what happens to the card:
//
//   - The page opens a session at the vault with a public key, which alone cannot
//     store a card, and sends the session's nonce to the shop.
//   - The shop authorizes the session with its private key: to create tokens in
//     the container of this order, for one minute.
//   - The page sends the card to the vault with the session's key, and sends the
//     token that it gets to the shop.
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
// The vault accepts requests only from pages of the shop's origin. Someone
// who can change the page can still read what is typed into it. So the page
// loads nothing from elsewhere, and its content security policy allows no
// inline script.
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
	if err := f.Parse(args); err != nil {
		return err
	}
	forShop, err := new(net.ListenConfig).Listen(ctx, "tcp", *shopAddr)
	if err != nil {
		return err
	}
	defer func() { _ = forShop.Close() }()
	forVault, err := new(net.ListenConfig).Listen(ctx, "tcp", *vaultAddr)
	if err != nil {
		return err
	}
	defer func() { _ = forVault.Close() }()
	acquirer := httptest.NewServer(&acquirer{})
	defer acquirer.Close()
	v, err := openVault(ctx, time.Now)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, v.Close()) }()
	s, api, err := newSite(ctx, v, originOf(forShop), originOf(forVault), acquirer.URL, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "The shop is at %s, and its vault is at %s. Ctrl-C stops both.\n", originOf(forShop), originOf(forVault))
	return serve(ctx, map[net.Listener]http.Handler{forShop: s.handler(), forVault: api})
}

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

// newSite sets up a new vault for the shop, and returns the shop and the vault's
// API. The API accepts requests only from pages of the shop.
func newSite(ctx context.Context, v *vault.Vault, shopURL, vaultURL, acquirerURL string, logger *slog.Logger) (*shop, http.Handler, error) {
	access, err := setUp(ctx, v, vaultURL, acquirerURL)
	if err != nil {
		return nil, nil, err
	}
	s := &shop{vault: access, orders: map[string]*order{}, logger: logger.With("server", "shop")}
	return s, httpserver.Handler(v, &httpserver.Options{Origins: []string{shopURL}, Logger: logger.With("server", "vault")}), nil
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
