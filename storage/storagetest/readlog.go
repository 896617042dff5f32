package storagetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// reading returns a reading of a token.
func (w *dbTest) reading(tenant storage.ID, id string) storage.Reading {
	return storage.Reading{Tenant: tenant, ID: id, Entry: w.log("", "")}
}

// entryOf returns the log entry of a reading that found a token.
func entryOf(r storage.Reading, t storage.Token) storage.Log {
	r.Entry.EntityType, r.Entry.EntityID = t.Type, t.ID
	return r.Entry
}

func readEnters(w *dbTest, s storage.ReadLogger) {
	tenant, token := w.id(), w.token("größe's")
	w.write(insert(tenant, token))
	first, second := w.reading(tenant, token.ID), w.reading(tenant, token.ID)
	second.Entry.ActorID, second.Entry.ActorType, second.Entry.ActorName, second.Entry.Message = storage.ID{}, "", "", ""
	second.Entry.Origin, second.Entry.Mac = "", storage.Hash{}
	first.Entry.EntityType, first.Entry.EntityID = "ignored", "ignored"
	for _, r := range []storage.Reading{first, second} {
		got := must(s.ReadToken(w.Context(), r))(w, "ReadToken")
		w.same("token", got, ofTenant(tenant, token))
	}
	logs, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 10})
	w.same("logs", logs, []storage.Log{entryOf(second, token), entryOf(first, token)})
	w.same("total", total, 2)
}

func readNothing(w *dbTest, s storage.ReadLogger) {
	tenant, other := w.id(), w.id()
	live, ended, ends := w.token("live"), w.token("ended"), w.token("ends")
	for _, t := range []*storage.Token{&live, &ended, &ends} {
		t.ExpiresAt = w.log("", "").CreatedAt.Add(time.Microsecond)
	}
	ended.ExpiresAt = ended.ExpiresAt.Add(-2 * time.Microsecond)
	ends.ExpiresAt = ends.ExpiresAt.Add(-time.Microsecond)
	w.write(insert(tenant, live, ended, ends))
	for _, r := range []storage.Reading{
		w.reading(tenant, "missing"), w.reading(tenant, "LIVE"), w.reading(tenant, ended.ID),
		w.reading(tenant, ends.ID), w.reading(other, live.ID),
	} {
		if _, err := s.ReadToken(w.Context(), r); !errors.Is(err, storage.ErrNotFound) {
			w.Errorf("%s: got %v, want ErrNotFound", r.ID, err)
		}
	}
	if _, err := s.ReadToken(w.Context(), w.reading(tenant, live.ID)); err != nil {
		w.Errorf("a token that has not expired: %v", err)
	}
	for t, want := range map[storage.ID]int{tenant: 1, other: 0} {
		if logs, _ := w.logs(storage.LogFilter{Tenant: t, Limit: 10}); len(logs) != want {
			w.Errorf("%d entries, want %d", len(logs), want)
		}
	}
}

func readLarge(w *dbTest, s storage.ReadLogger) {
	tenant := w.id()
	for i, size := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 3 << 20} {
		token := w.token(fmt.Sprint("large", i))
		token.Body = make([]byte, size)
		for j := range token.Body {
			token.Body[j] = byte(j * 7)
		}
		w.write(insert(tenant, token))
		got, err := s.ReadToken(w.Context(), w.reading(tenant, token.ID))
		if err != nil {
			w.Fatalf("%d bytes: %v", size, err)
		}
		if got.Body == nil || !bytes.Equal(got.Body, token.Body) {
			w.Errorf("a body of %d bytes came back different, with %d bytes", size, len(got.Body))
		}
		got.Body, token.Body = nil, nil // comparing them would take long
		w.same("token", got, ofTenant(tenant, token))
	}
	if _, total := w.logs(storage.LogFilter{Tenant: tenant, Limit: 1}); total != 6 {
		w.Errorf("%d entries, want 6", total)
	}
}

func readManyAtOnce(w *dbTest, s storage.ReadLogger) {
	const readers, each = 40, 5
	tenants := []storage.ID{w.id(), w.id(), w.id()}
	tokens := w.tokenSeries("t", 10)
	for _, tenant := range tenants {
		w.write(insert(tenant, tokens...))
	}
	var wanted [readers * each]storage.Reading
	for i := range wanted {
		wanted[i] = w.reading(tenants[i%3], tokens[i%10].ID)
		if i%7 == 0 {
			wanted[i].ID = "missing"
		}
	}
	errs := try(readers, func(i int) error {
		for _, r := range wanted[i*each : (i+1)*each] {
			got, err := s.ReadToken(w.Context(), r)
			switch {
			case r.ID == "missing" && errors.Is(err, storage.ErrNotFound):
			case err != nil:
				return err
			case got.ID != r.ID || got.Tenant != r.Tenant:
				return fmt.Errorf("got token %s of %x, want %s of %x", got.ID, got.Tenant, r.ID, r.Tenant)
			}
		}
		return nil
	})
	w.ok("read", errors.Join(errs...))
	for _, r := range wanted {
		logs, _ := w.logs(storage.LogFilter{Tenant: r.Tenant, EntityID: r.ID, Limit: 1000})
		found := 0
		for _, l := range logs {
			if l.ID == r.Entry.ID {
				found++
			}
		}
		if want := map[bool]int{true: 0, false: 1}[r.ID == "missing"]; found != want {
			w.Errorf("%d entries of a reading of %s, want %d", found, r.ID, want)
		}
	}
}

func readersWhoLeave(w *dbTest, s storage.ReadLogger) {
	tenant, token := w.id(), w.token("t")
	w.write(insert(tenant, token))
	for i, err := range try(60, func(i int) error {
		ctx := w.Context()
		if i%2 == 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(i*30)*time.Microsecond)
			defer cancel()
		}
		_, err := s.ReadToken(ctx, w.reading(tenant, token.ID))
		return err
	}) {
		if err != nil && (i%2 == 1 || !errors.Is(err, context.DeadlineExceeded)) {
			w.Errorf("reader %d: %v", i, err)
		}
	}
}
