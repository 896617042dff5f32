//go:build !race

package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// BenchmarkCreate creates card tokens with two metadata pairs.
func BenchmarkCreate(b *testing.B) {
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		ctx := context.Background()
		u := newUser(b, on.openStore(b, on.create(b)))
		ours := &contender{name: "vault", call: func() error { return createCard(ctx, u.Client) }}
		bare := bareCreate(b, on.bareWriter(b, on.emptyDatabase(b)).write)
		contenders := []*contender{ours, bare}
		if on == onPostgres {
			naive := bareCreate(b, openNaiveWriter(b, on.emptyDatabase(b)))
			naive.name = "naive"
			contenders = append(contenders, naive)
		}
		warmUp(b, contenders...)
		race(b, callers, contenders...)
		goal := 0.90
		if on == onPostgres && callers == 128 {
			goal = 0.85
		}
		report(b, figure{what: "CreateToken / bare", metric: "x/bare", backend: on.name, callers: strconv.Itoa(callers),
			value: ours.over(bare), unit: "x", goal: goal, rates: ours.perSecond() + ", " + bare.perSecond()})
		if on == onPostgres {
			naive := contenders[2]
			report(b, figure{what: "CreateToken / naive", metric: "x/naive", backend: on.name, callers: strconv.Itoa(callers),
				value: ours.over(naive), unit: "x", goal: 2.5, rates: naive.perSecond()})
		}
	})
}

// bareCreate writes the rows that CreateToken would write.
func bareCreate(b *testing.B, write func(*storage.Change) error) *contender {
	b.Helper()
	rows := newSupply(b, func(u *user) error { return createCard(context.Background(), u.Client) })
	return &contender{name: "bare", prepare: rows.prepare, call: func() error {
		c, err := rows.take()
		if err != nil {
			return err
		}
		return write(c)
	}}
}

// BenchmarkGet reads tokens by id. The bare reader's database has no writes, so
// its cache stays valid.
func BenchmarkGet(b *testing.B) {
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		ctx := context.Background()
		reads := func(name string, u *user, ids []string) *contender {
			return &contender{name: name, call: func() error {
				_, err := u.GetToken(ctx, ids[rand.N(len(ids))])
				return err
			}}
		}
		const tokens = 20_000
		logged := newUser(b, on.openStore(b, on.create(b)))
		withLog := reads("vault", logged, createGeneric(b, logged.Client, tokens))
		dsn := on.create(b)
		silent := newUser(b, withoutReadLog{on.openStore(b, dsn)})
		ids := createGeneric(b, silent.Client, tokens)
		withoutLog := reads("without log entry", silent, ids)
		read := on.bareReader(b, dsn)
		bare := &contender{name: "bare", call: func() error { return read(silent.tenant, ids[rand.N(len(ids))]) }}
		race(b, callers, withLog, withoutLog, bare)

		floor, ceiling := 0.4, 1.3
		if on == onSQLite {
			floor, ceiling = 0.25, 1.6
		}
		if on == onSQLite && callers == 1 {
			floor = 0.12
		}
		report(b, figure{what: "GetToken / bare select", metric: "x/bare", backend: on.name, callers: strconv.Itoa(callers),
			value: withLog.over(bare), unit: "x", goal: floor, rates: withLog.perSecond() + ", " + bare.perSecond()})
		report(b, figure{what: "GetToken less log entry, time / bare select", metric: "time/bare", backend: on.name, callers: strconv.Itoa(callers),
			value: bare.over(withoutLog), unit: "x", goal: ceiling, atMost: true, rates: withoutLog.perSecond()})
	})
}

// leaves returns a JSON array of n strings.
func leaves(n int) vault.JSON {
	document := make([]string, n)
	for i := range document {
		document[i] = fmt.Sprintf("value %016x", rand.Uint64())
	}
	text, err := json.Marshal(document)
	if err != nil {
		panic(err) // strings always encode
	}
	return text
}

// createGeneric creates generic tokens and returns their ids.
func createGeneric(b testing.TB, c *vault.Client, n int) []string {
	b.Helper()
	out := must.Get(c.Tokenize(b.Context(), leaves(n)))(b)
	var ids []string
	must.Do(b, json.Unmarshal(out, &ids))
	return ids
}

// BenchmarkTokenize creates 1,000 tokens at once.
func BenchmarkTokenize(b *testing.B) {
	each(b, func(b *testing.B, on *backend) {
		u := newUser(b, on.openStore(b, on.create(b)))
		var documents [16]vault.JSON
		for i := range documents {
			documents[i] = leaves(1000)
		}
		tokenize := func(u *user) error {
			_, err := u.Tokenize(context.Background(), documents[rand.N(len(documents))])
			return err
		}
		ours := &contender{name: "vault", call: func() error { return tokenize(u) }}
		writer := on.bareWriter(b, on.emptyDatabase(b))
		rows := newSupply(b, tokenize)
		bare := &contender{name: "bare", prepare: rows.prepareBatches, call: func() error {
			c, err := rows.take()
			if err != nil {
				return err
			}
			return writer.writeMany(c)
		}}
		race(b, 1, ours, bare)
		what, goal := "Tokenize 1,000 / bare batch", 0.85
		if on == onPostgres {
			what, goal = "Tokenize 1,000 / COPY", 0.75
		}
		report(b, figure{what: what, metric: "x/bare", backend: on.name, callers: "1", value: ours.over(bare), unit: "x", goal: goal,
			rates: ours.perSecond() + ", " + bare.perSecond()})
	})
}

// BenchmarkOnce creates card tokens with and without idempotency keys. Both
// encode the token as a response.
func BenchmarkOnce(b *testing.B) {
	create := func(ctx context.Context, c *vault.Client) (vault.StoredResponse, error) {
		token, err := c.CreateToken(ctx, cards()[rand.N(len(cards()))])
		if err != nil {
			return vault.StoredResponse{}, err
		}
		body, err := json.Marshal(token)
		return vault.StoredResponse{Status: 201, Body: body}, err
	}
	eachCount(b, func(b *testing.B, on *backend, callers int) {
		ctx := context.Background()
		u := newUser(b, on.openStore(b, on.create(b)))
		plain := &contender{name: "without key", call: func() error {
			_, err := create(ctx, u.Client)
			return err
		}}
		once := &contender{name: "with key", call: func() error {
			_, _, err := u.Once(ctx, vault.IdempotencyKey{Scope: "POST /tokens", Key: uuid.NewString()}, create)
			return err
		}}
		warmUp(b, plain, once)
		race(b, callers, plain, once)
		report(b, figure{what: "CreateToken with idempotency key / without", metric: "x/plain", backend: on.name,
			callers: strconv.Itoa(callers), value: once.over(plain), unit: "x", goal: 0.70,
			rates: once.perSecond() + ", " + plain.perSecond()})
	})
}
