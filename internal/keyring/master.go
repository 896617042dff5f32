package keyring

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/seal"
	"github.com/seed-72ea4aab/vault/storage"
)

// Check verifies the master key with a record in the database: a wrapped ring
// that seals no tenant's data.
type Check struct {
	Store interface {
		Records
		Write(ctx context.Context, c *storage.Change) error
	}
	Master seal.AEAD
	Now    func() time.Time
}

// Verify checks that the master key belongs to the database. Otherwise it
// fails with [fault.ErrWrongKey]. A new database gets a record. A master key
// that cannot unwrap what it has just wrapped fails with
// [fault.ErrKeyUnavailable].
func (c *Check) Verify(ctx context.Context) error {
	ring, _, err := c.read(ctx)
	if err != nil || ring != nil {
		return err
	}
	err = c.create(ctx)
	if !errors.Is(err, storage.ErrExists) {
		return err
	}
	// Another node has set up the database: its key must be the same.
	return c.Verify(ctx)
}

// Rewrap wraps the record with the current master key. It fails with
// storage.ErrStale if another node was faster.
func (c *Check) Rewrap(ctx context.Context) error {
	ring, rec, err := c.read(ctx)
	if err != nil {
		return err
	}
	if ring == nil {
		return c.create(ctx)
	}
	if rec.Body, err = Wrap(ctx, c.Master, ring, storage.ID{}); err != nil {
		return err
	}
	return c.Store.Write(ctx, &storage.Change{
		Now:           c.Now(),
		UpdateRecords: []storage.RecordUpdate{{Rev: rec.Rev, Record: *rec}},
	})
}

// read returns the ring and its record, if they exist.
func (c *Check) read(ctx context.Context) (*seal.Ring, *storage.Record, error) {
	var none storage.ID
	recs, err := c.Store.Records(ctx, none, KindRing, []storage.ID{none})
	if err != nil {
		return nil, nil, fmt.Errorf("vault: read the record of the master key: %w", err)
	}
	if len(recs) == 0 {
		return nil, nil, nil
	}
	ring, err := c.unwrap(ctx, recs[0].Body)
	return ring, &recs[0], err
}

// Own returns the keys of the vault itself.
func Own(ctx context.Context, store Records, master seal.AEAD) (*seal.Ring, error) {
	recs, err := store.Records(ctx, storage.ID{}, KindRing, []storage.ID{{}})
	if err != nil {
		return nil, err
	}
	if len(recs) == 0 {
		return nil, ErrNoRing
	}
	return (&Check{Master: master}).unwrap(ctx, recs[0].Body)
}

// ErrNoRing means that the record with the vault's own keys does not exist.
var ErrNoRing = errors.New("vault: the record of the master key is gone")

// unwrap unwraps the ring. A key in a KMS fails for data of another key, and
// for any data while the service is down. The errors differ between services.
// So a failing key is called the wrong key only if it works otherwise.
func (c *Check) unwrap(ctx context.Context, wrapped []byte) (*seal.Ring, error) {
	var none storage.ID
	ring, err := seal.Unwrap(ctx, c.Master, none, wrapped)
	if !errors.Is(err, seal.ErrUnwrap) || errors.Is(err, fault.ErrKeyDenied) {
		return ring, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err() // no statement about the key
	}
	if broken := Try(seal.Fresh(ctx), c.Master); broken != nil {
		return nil, unavailable(broken)
	}
	// The service may have recovered.
	ring, err = seal.Unwrap(ctx, c.Master, none, wrapped)
	switch {
	case cannotOpen(err):
		return nil, fmt.Errorf("%w: %w", fault.ErrWrongKey, err)
	case errors.Is(err, seal.ErrUnwrap):
		return nil, unavailable(err)
	}
	return ring, err
}

// cannotOpen reports whether a key that works otherwise failed to unwrap a ring, so
// that the ring is not one of this key. A denial or a timeout says nothing about the
// ring.
func cannotOpen(err error) bool {
	for _, other := range []error{fault.ErrKeyDenied, fault.ErrKeyUnavailable, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, other) {
			return false
		}
	}
	return errors.Is(err, seal.ErrUnwrap)
}

// Holds asks the holder of the master key whether it may be used. It decrypts the
// ring of the vault itself, whose record is read again, because it may have been
// wrapped with another key. An altered record is no statement about the key if the
// key works otherwise.
func (c *Check) Holds(ctx context.Context) error {
	ctx = seal.Fresh(ctx)
	_, err := Own(ctx, c.Store, c.Master)
	if err == nil || errors.Is(err, fault.ErrKeyDenied) {
		return err
	}
	return Try(ctx, c.Master)
}

// Several is a master key that consists of several keys.
type Several interface {
	// Keys returns the keys.
	Keys() []seal.AEAD
}

// Try wraps and unwraps a ring with a master key, and returns the error. Of
// several keys it tries each, because any of them may be needed.
func Try(ctx context.Context, key seal.AEAD) error {
	if several, ok := key.(Several); ok {
		for _, k := range several.Keys() {
			if err := Try(ctx, k); err != nil {
				return err
			}
		}
		return nil
	}
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		return err
	}
	wrapped, err := ring.Wrap(ctx, key, storage.ID{})
	if err != nil {
		return err
	}
	_, err = seal.Unwrap(ctx, key, storage.ID{}, wrapped)
	return err
}

// Wrap wraps a ring of a tenant with a master key.
func Wrap(ctx context.Context, master seal.AEAD, ring *seal.Ring, tenant storage.ID) ([]byte, error) {
	wrapped, err := ring.Wrap(ctx, master, tenant)
	if err != nil {
		return nil, unavailable(err)
	}
	return wrapped, nil
}

// unavailable returns the error for a master key that failed. A denial stays
// what it is.
func unavailable(err error) error {
	if errors.Is(err, fault.ErrKeyDenied) {
		return err
	}
	return fmt.Errorf("%w: %w", fault.ErrKeyUnavailable, err)
}

// create sets up a database, if the master key can unwrap what it wraps.
func (c *Check) create(ctx context.Context) error {
	ring, err := seal.NewRing(time.Now())
	if err != nil {
		return err
	}
	wrapped, err := Wrap(ctx, c.Master, ring, storage.ID{})
	if err != nil {
		return err
	}
	if _, err := seal.Unwrap(ctx, c.Master, storage.ID{}, wrapped); err != nil {
		return unavailable(err)
	}
	now := c.Now()
	return c.Store.Write(ctx, &storage.Change{
		Now:           now,
		InsertRecords: []storage.Record{{Kind: KindRing, Body: wrapped, CreatedAt: now}},
	})
}

// secretName matches the names of parameters whose values are not shown.
var secretName = regexp.MustCompile(`(?i)key|token|password|secret|signature|pin`)

const hidden = "xxxxx"

// ShownURI returns the URI of a key without users, passwords and tokens. Of a
// malformed URI it shows nothing.
func ShownURI(uri string) string {
	if program, ok := strings.CutPrefix(uri, "exec:"); ok {
		words := strings.Fields(program)
		for i := 1; i < len(words); i++ {
			name, _, ok := strings.Cut(words[i], "=")
			switch {
			case ok && secretName.MatchString(name):
				words[i] = name + "=" + hidden
			case !ok && strings.HasPrefix(words[i-1], "-") && !strings.Contains(words[i-1], "=") && secretName.MatchString(words[i-1]):
				words[i] = hidden
			}
		}
		return "exec:" + strings.Join(words, " ")
	}
	u, err := url.Parse(uri)
	if err != nil {
		return hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	for name := range query {
		if secretName.MatchString(name) {
			query.Set(name, hidden)
			u.RawQuery = query.Encode()
		}
	}
	return u.String()
}
