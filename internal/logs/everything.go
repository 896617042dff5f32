package logs

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/keyring"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

// Everything is a position in the logs of all tenants. In a log without a
// position, it starts with the entries that were created at Since or later.
type Everything struct {
	Since  time.Time            `json:"since"`
	Places map[uuid.UUID][]byte `json:"places,omitempty"`
}

// ReadEverything parses a cursor from Everything or [Since]. The empty cursor
// stands for entries from now on.
func ReadEverything(v *core.Vault, cursor string) (*Everything, error) {
	at := &Everything{Places: map[uuid.UUID][]byte{}}
	if cursor == "" {
		at.Since = v.Now()
		return at, nil
	}
	if since, ok, err := readSince(cursor); ok {
		at.Since = since
		return at, err
	}
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(text, at) != nil || at.Since.IsZero() {
		return nil, fault.Field("cursor", "must be the cursor of an earlier batch of all logs, or since: and a time")
	}
	if at.Places == nil {
		at.Places = map[uuid.UUID][]byte{}
	}
	return at, nil
}

// Cursor returns the position as text.
func (at *Everything) Cursor() (string, error) {
	text, err := json.Marshal(at)
	return base64.RawURLEncoding.EncodeToString(text), err
}

// Follow calls give with new entries of all tenants, until it returns false or the
// context ends. It moves at before each call.
func Follow(ctx context.Context, v *core.Vault, at *Everything, give func(tenant uuid.UUID, rows []storage.Log) bool) error {
	known, tenants := map[storage.ID]bool{}, Tenants{Store: v.Store}
	for {
		if err := v.Alive(); err != nil {
			return err
		}
		err := tenants.New(ctx, time.Now(), func(tenant storage.ID) (seen bool) {
			seen, known[tenant] = known[tenant], true
			return seen
		})
		if err != nil {
			return err
		}
		for tenant := range known {
			if on, err := at.follow(ctx, v, tenant, give); err != nil || !on {
				return err
			}
		}
		if err := pace.Sleep(ctx, longPause); err != nil {
			return err
		}
	}
}

// follow passes the new entries of a tenant's log to give.
func (at *Everything) follow(ctx context.Context, v *core.Vault, tenant storage.ID, give func(uuid.UUID, []storage.Log) bool) (on bool, err error) {
	for {
		id := uuid.UUID(tenant)
		f := storage.LogFollowing{Tenant: tenant, After: at.Places[id], Limit: followSize}
		if f.After == nil {
			f.From = at.Since
		}
		rows, next, err := v.Store.FollowLogs(ctx, f)
		if err != nil || len(rows) == 0 {
			return true, err
		}
		at.Places[id] = next
		if !give(id, rows) {
			return false, nil
		}
	}
}

// listEvery is the time between two lists of all tenants.
const listEvery = time.Minute

// Tenants lists new tenants.
type Tenants struct {
	Store  storage.Storage
	listed time.Time // when all tenants were listed
}

// Relist makes the next New list all tenants.
func (l *Tenants) Relist() { l.listed = time.Time{} }

// New calls see for tenants, newest first, until it reaches a known tenant. It
// periodically lists all tenants, because the clocks of nodes differ.
func (l *Tenants) New(ctx context.Context, now time.Time, see func(storage.ID) (known bool)) error {
	all := l.listed.IsZero() || now.Sub(l.listed) >= listEvery
	filter := storage.RecordFilter{Kind: keyring.KindTenant, Limit: 100}
	for {
		recs, _, err := l.Store.ListRecords(ctx, filter)
		if err != nil {
			return err
		}
		known := false
		for i := range recs {
			known = see(recs[i].Tenant)
		}
		if len(recs) < filter.Limit || known && !all {
			break
		}
		filter.Before = recs[len(recs)-1].ID
	}
	if all {
		l.listed = now
	}
	return nil
}
