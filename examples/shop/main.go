// Command shop sells products to customers who pay with cards. Its products
// and orders are in the same database as the vault with the cards. An order
// and the token of its card are written in one commit. A failed order leaves
// nothing behind, and a crash never leaves only one of the two. The card is a
// sealed field of the order, and a test searches for it in everything that
// the shop writes. A card that the gateway declines is erased.
//
//	go run ./examples/shop
//	go run ./examples/shop -db shop.db -key shop.key
//	go run ./examples/shop -db postgres://shop@localhost/shop -key shop.key
//
// Cards are charged through a proxy, which inserts the number on the way to
// the payment gateway. Here the gateway is a fake one on this machine.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"

	"github.com/seed-72ea4aab/vault"
)

func main() {
	db := flag.String("db", ":memory:", "a SQLite file, or the `URL` of a PostgreSQL database")
	keyFile := flag.String("key", "", "the `file` of the vault's master key; created if it does not exist")
	flag.Parse()
	if err := run(context.Background(), *db, *keyFile, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

// run opens the shop and sells until nothing is left.
func run(ctx context.Context, db, keyFile string, out io.Writer) (err error) {
	key, err := masterKey(db, keyFile)
	if err != nil {
		return err
	}
	gateway := httptest.NewServer(fakeGateway{})
	defer gateway.Close()
	s, err := open(ctx, db, key, gateway.URL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if err := s.stock(ctx, "book", 1999, 2); err != nil {
		return err
	}
	for _, number := range []string{"4242424242424242", "4000000000000002", "5555555555554444"} {
		if err := sell(ctx, s, number, out); err != nil {
			return err
		}
	}
	orders, cards, err := s.count(ctx)
	fmt.Fprintf(out, "%d orders, %d cards\n", orders, cards)
	return err
}

// sell takes an order and charges its card. If the shop is sold out, or the
// gateway declines the card, sell prints that and returns no error.
func sell(ctx context.Context, s *shop, number string, out io.Writer) error {
	o, err := s.buy(ctx, "book", vault.CardData{Number: number, CVC: "123"})
	if errors.Is(err, errSoldOut) {
		fmt.Fprintln(out, "sold out")
		return nil
	}
	if err != nil {
		return err
	}
	receipt, err := s.charge(ctx, o)
	switch {
	case errors.Is(err, errDeclined):
		fmt.Fprintln(out, "declined", o.Card.Mask())
		return s.forget(ctx, o)
	case err != nil:
		return err
	default:
		fmt.Fprintln(out, "charged ", o.Card.Mask(), receipt)
	}
	return nil
}

// masterKey reads the key of a vault, or creates one. A vault in memory needs
// no permanent key.
func masterKey(db, file string) (*vault.Key, error) {
	if file == "" {
		if db != ":memory:" {
			return nil, errors.New("a database that stays needs -key, since nothing opens the cards without it")
		}
		return vault.NewKey(), nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		key := vault.NewKey()
		return key, os.WriteFile(file, []byte(key.Text()), 0o600)
	}
	if err != nil {
		return nil, err
	}
	return vault.ParseKey(string(text))
}
