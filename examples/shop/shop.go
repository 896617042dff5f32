package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/google/uuid"
	_ "github.com/lib/pq" // the driver of the shop's own connections

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/storage/postgres"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
)

// shop is products and orders, and a vault with the cards, in one database.
type shop struct {
	db    *sql.DB // the shop's own connections
	vault *vault.Vault
	cards *vault.Client // acts as the shop's tenant
	proxy string        // the key of the proxy to the gateway

	between func() // is called in the middle of an order; a test sets it
}

// order is an order that has been placed.
type order struct {
	id, card string // the card by its token
	masked   vault.JSON
	amount   int
}

var (
	errSoldOut  = errors.New("sold out")
	errDeclined = errors.New("the gateway declined the card")
)

// open opens a shop, and sets one up where there is none.
func open(ctx context.Context, dsn string, key *vault.Key, gateway string) (*shop, error) {
	s := &shop{between: func() {}}
	store, err := s.openStorage(ctx, dsn)
	if err != nil {
		return nil, err
	}
	s.vault, err = vault.Open(ctx, store, key, &vault.Config{
		// The fake gateway is on this machine. A real one needs none of this.
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
	s.db, err = store.OpenDB() // which begins transactions with the write lock
	return store, err
}

const tables = `
CREATE TABLE IF NOT EXISTS products (id text PRIMARY KEY, price integer NOT NULL, stock integer NOT NULL CHECK (stock >= 0));
CREATE TABLE IF NOT EXISTS orders (id text PRIMARY KEY, product text NOT NULL REFERENCES products (id), card text NOT NULL, charge text);
CREATE TABLE IF NOT EXISTS shop (tenant text NOT NULL)`

// setUp makes the tables, the tenant, and the proxy. The proxy belongs to this
// run, since a fake gateway has another address each time.
func (s *shop) setUp(ctx context.Context, gateway string) error {
	if _, err := s.db.ExecContext(ctx, tables); err != nil {
		return err
	}
	tenant, err := s.tenant(ctx)
	if err != nil {
		return err
	}
	s.cards = s.vault.Tenant(tenant)
	proxy, err := s.cards.CreateProxy(ctx, vault.ProxyParams{Name: "Gateway", DestinationURL: gateway})
	if err != nil {
		return err
	}
	s.proxy = proxy.Key
	return nil
}

// tenant returns the tenant of the shop, which is made once.
func (s *shop) tenant(ctx context.Context) (uuid.UUID, error) {
	var id string
	err := s.db.QueryRowContext(ctx, `SELECT tenant FROM shop`).Scan(&id)
	if !errors.Is(err, sql.ErrNoRows) {
		return uuid.MustParse(id), err
	}
	tenant, err := s.vault.CreateTenant(ctx, "Shop")
	if err != nil {
		return uuid.UUID{}, err
	}
	_, err = s.db.ExecContext(ctx, `INSERT INTO shop (tenant) VALUES ($1)`, tenant.ID.String())
	return tenant.ID, err
}

func (s *shop) close() error { return errors.Join(s.db.Close(), s.vault.Close()) }

// stock puts a product on the shelf.
func (s *shop) stock(ctx context.Context, product string, price, n int) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO products (id, price, stock) VALUES ($1, $2, $3)
		ON CONFLICT (id) DO UPDATE SET price = excluded.price, stock = excluded.stock`, product, price, n)
	return err
}

// buy places an order. The card's token, the order and the product's stock are
// one commit; whatever fails takes all of it away.
func (s *shop) buy(ctx context.Context, product string, card vault.CardData) (*order, error) {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	token, err := s.cards.InTx(tx).CreateToken(ctx, vault.TokenParams{Type: vault.TypeCard, Data: card})
	if err != nil {
		return nil, err
	}
	s.between()
	o := &order{id: uuid.NewString(), card: token.ID, masked: token.Data}
	err = tx.QueryRowContext(ctx, `UPDATE products SET stock = stock - 1 WHERE id = $1 AND stock > 0 RETURNING price`, product).Scan(&o.amount)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errSoldOut
	}
	if err != nil {
		return nil, err
	}
	if _, err := tx.ExecContext(ctx, `INSERT INTO orders (id, product, card) VALUES ($1, $2, $3)`, o.id, product, o.card); err != nil {
		return nil, err
	}
	return o, tx.Commit()
}

// charge sends the card of an order to the gateway, through the proxy, and notes
// what the gateway says. It is not part of the order's transaction: money that
// has moved cannot be rolled back.
func (s *shop) charge(ctx context.Context, o *order) (receipt string, err error) {
	body := fmt.Sprintf(`{"card": "{{ %s }}", "amount": %d}`, o.card, o.amount)
	answer, err := s.cards.InvokeProxy(ctx, vault.ProxyCall{
		Key: s.proxy, Method: http.MethodPost, Path: "/charges", Body: strings.NewReader(body),
		Header: http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer sk_test"}},
	})
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	if answer.Status != http.StatusOK {
		return "", errDeclined
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return "", err
	}
	var charge struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(text, &charge); err != nil {
		return "", err
	}
	_, err = s.db.ExecContext(ctx, `UPDATE orders SET charge = $1 WHERE id = $2`, charge.ID, o.id)
	return charge.ID, err
}

// count returns the numbers of orders and of cards, which are always the same.
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

// fakeGateway accepts every card but one.
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
