package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/google/uuid"
	_ "github.com/lib/pq" // the driver for the shop's own connections

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaultlog"
	"github.com/seed-72ea4aab/vault/vaultsql"
)

// shop has products, orders, and a vault with the cards, in one database.
type shop struct {
	db    *sql.DB // the shop's own connections
	vault *vault.Vault
	cards *vault.Owner         // acts as the shop's tenant
	proxy string               // key of the proxy to the gateway
	key   vault.Secret[string] // the shop's key at the gateway

	between func() // called in the middle of an order; for tests
}

// order is a placed order. The card column holds a token id.
type order struct {
	ID     string
	Card   vaultsql.Card
	Amount int
}

var (
	errSoldOut  = errors.New("sold out")
	errDeclined = errors.New("the gateway declined the card")
)

// open opens a shop, and sets up a new one if needed.
func open(ctx context.Context, dsn string, key *vault.Key, gateway string) (*shop, error) {
	s := &shop{between: func() {}, key: vault.NewSecret("sk_test")}
	store, err := s.openStorage(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s.vault, err = vault.Open(ctx, store, key, &vault.Config{
		Logger: slog.New(vaultlog.Handler(slog.NewTextHandler(os.Stderr, nil), nil)),
		// The fake gateway is on this machine. A real gateway needs no such
		// policy.
		Egress: vault.EgressPolicy{AllowHTTP: true, AllowPrivate: true},
	})
	if err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	if err := s.setUp(ctx, gateway); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// openStorage opens the database twice: for the vault, and for the shop.
func (s *shop) openStorage(ctx context.Context, dsn string) (vault.Storage, error) {
	if strings.HasPrefix(dsn, "postgres://") {
		store, err := postgres.Open(ctx, dsn)
		if err != nil {
			return nil, err
		}
		s.db, err = sql.Open("postgres", dsn)
		return store, err
	}
	store, err := sqlite.Open(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s.db, err = store.OpenDB() // starts transactions with the write lock
	return store, err
}

const tables = `
CREATE TABLE IF NOT EXISTS products (id text PRIMARY KEY, price integer NOT NULL, stock integer NOT NULL CHECK (stock >= 0));
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, product text NOT NULL REFERENCES products (id), card text NOT NULL, charge text)`

// setUp creates the tables, the tenant and the proxy. The proxy is for this
// run only, because the fake gateway has another address each time.
func (s *shop) setUp(ctx context.Context, gateway string) error {
	if _, err := s.db.ExecContext(ctx, tables); err != nil {
		return err
	}
	tenant, err := s.vault.EnsureTenant(ctx, "Shop")
	if err != nil {
		return err
	}
	s.cards = s.vault.Tenant(tenant.ID)
	proxy, err := s.cards.CreateProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: gateway})
	if err != nil {
		return err
	}
	s.proxy = proxy.Key
	return nil
}

func (s *shop) close() error { return errors.Join(s.db.Close(), s.vault.Close()) }

// stock sets the price and the stock of a product.
func (s *shop) stock(ctx context.Context, product string, price, n int) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO products (id, price, stock) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET price = excluded.price, stock = excluded.stock`, product, price, n)
	return err
}

// buy places an order. The card's token, the order and the product's stock
// are written in one commit, or not at all.
func (s *shop) buy(ctx context.Context, product string, card vault.CardData) (*order, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	o := &order{ID: uuid.NewString(), Card: vaultsql.NewCard(card)}
	if err := vaultsql.Seal(ctx, s.cards.InTx(tx), o); err != nil {
		return nil, err
	}
	s.between()
	err = tx.QueryRowContext(ctx, `UPDATE products SET stock = stock - 1 WHERE id = $1 AND stock > 0 RETURNING price`, product).Scan(&o.Amount)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errSoldOut
	}
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, product, card) VALUES ($1, $2, $3)`, o.ID, product, o.Card); err != nil {
		return nil, err
	}
	return o, tx.Commit()
}

// charge sends the card of an order to the gateway through the proxy, and
// stores the result. It is not part of the order's transaction, because a
// payment cannot be rolled back.
func (s *shop) charge(ctx context.Context, o *order) (receipt string, err error) {
	body := fmt.Sprintf(`{"card": "{{ %s }}", "amount": %d}`, o.Card, o.Amount)
	answer, err := s.cards.InvokeProxy(ctx, vault.ProxyCall{
		Key: s.proxy, Method: http.MethodPost, Path: "/charges", Body: strings.NewReader(body),
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + s.key.Reveal()}},
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.Status != http.StatusOK {
		return "", errDeclined
	}
	var charge struct{ ID string }
	if err := json.NewDecoder(answer.Body).Decode(&charge); err != nil {
		return "", err
	}
	_, err = s.db.ExecContext(ctx, `UPDATE orders SET charge = $1 WHERE id = $2`, charge.ID, o.ID)
	return charge.ID, err
}

// forget erases the card of an order, and everything that the vault stored
// because of it. The log keeps the reason.
func (s *shop) forget(ctx context.Context, o *order) error {
	_, err := s.cards.EraseTokens(ctx, vault.EraseParams{Query: fmt.Sprintf("id:%s", o.Card), Reason: "order " + o.ID})
	return err
}

// count returns the numbers of orders and cards. Every order has a card until it
// is forgotten.
func (s *shop) count(ctx context.Context) (orders, cards int, err error) {
	if err := s.db.QueryRowContext(ctx, `SELECT count(*) FROM orders`).Scan(&orders); err != nil {
		return 0, 0, err
	}
	page, err := s.cards.ListTokens(ctx, vault.ListTokensParams{Types: []vault.TokenType{vault.TypeCard}})
	if err != nil {
		return 0, 0, err
	}
	return orders, page.Pagination.TotalItems, nil
}

// fakeGateway accepts every card except one.
type fakeGateway struct{}

// ServeHTTP charges a card.
func (fakeGateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct{ Card vault.CardData }
	if r.Header.Get("Authorization") != "Bearer sk_test" || json.NewDecoder(r.Body).Decode(&body) != nil {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if body.Card.Number == "4000000000000002" {
		w.WriteHeader(http.StatusPaymentRequired)
		return
	}
	fmt.Fprintf(w, `{"id":"ch_%s"}`, body.Card.Number[len(body.Card.Number)-4:])
}
