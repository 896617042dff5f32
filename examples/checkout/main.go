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
// nothing of it. There are limits on the attempts to pay an order, and for
// each client address on new orders and requests to the vault.
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
	"net/netip"
	"os"
	"os/signal"
	"syscall"

	"github.com/seed-72ea4aab/vault"
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
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	f := flag.NewFlagSet("checkout", flag.ContinueOnError)
	f.SetOutput(stderr)
	shopAddr := f.String("shop", "127.0.0.1:8081", "`address` of the shop")
	vaultAddr := f.String("vault", "127.0.0.1:8082", "`address` of the vault")
	if err := f.Parse(args); err != nil {
		return err
	}
	l, err := listen(ctx, *shopAddr, *vaultAddr)
	if err != nil {
		return err
	}
	defer l.close()
	v, err := openVault(ctx, nil)
	if err != nil {
		return err
	}
	s, err := newSite(ctx, v, l, slog.New(slog.NewTextHandler(stderr, nil)))
	if err != nil {
		return errors.Join(err, v.Close())
	}
	fmt.Fprintf(stdout, "The shop is at %s, and its vault is at %s. Ctrl-C stops both.\n", originOf(l.shop), originOf(l.vault))
	return errors.Join(s.serve(ctx), v.Close())
}

// openVault opens a vault in memory. Proxies may reach this machine, because
// the acquirer runs here. A real acquirer on the internet needs no such
// policy.
func openVault(ctx context.Context, cfg *vault.Config) (*vault.Vault, error) {
	var c vault.Config
	if cfg != nil {
		c = *cfg
	}
	c.Egress = vault.EgressPolicy{AllowHTTP: true, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	store, err := sqlite.Open(ctx, ":memory:")
	if err != nil {
		return nil, err
	}
	return vault.Open(ctx, store, vault.NewKey(), &c)
}

// listeners are the listeners of the site's parts.
type listeners struct{ shop, vault, acquirer net.Listener }

// listen opens the listeners; the acquirer gets any free port.
func listen(ctx context.Context, shop, vault string) (*listeners, error) {
	l := &listeners{}
	var lc net.ListenConfig
	for _, want := range []struct {
		listener *net.Listener
		addr     string
	}{{&l.shop, shop}, {&l.vault, vault}, {&l.acquirer, "127.0.0.1:0"}} {
		var err error
		if *want.listener, err = lc.Listen(ctx, "tcp", want.addr); err != nil {
			l.close()
			return nil, err
		}
	}
	return l, nil
}

func (l *listeners) close() {
	for _, listener := range []net.Listener{l.shop, l.vault, l.acquirer} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// originOf returns the web origin of a listener.
func originOf(l net.Listener) string { return "http://" + l.Addr().String() }
