package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/bounded"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/pace"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// denialsEvery is the shortest time between two entries about the same denied
	// call of an application.
	denialsEvery = time.Second
	// maxDenials bounds the number of denied calls that are remembered.
	maxDenials = 10_000
	// denialWait bounds how long a denied call waits for its entry.
	denialWait = 5 * time.Second
)

// denials counts denied calls between two entries.
type denials struct {
	mu  sync.Mutex
	all bounded.Map[denialKey, *denial]
}

// denialKey identifies a call of an application. The application is zero for the
// tenant itself, and the proxy is zero unless it was called without a key.
type denialKey struct {
	tenant, application, proxy uuid.UUID
	call                       string
}

// denial is a call that was denied.
type denial struct {
	caller     Caller // the last one
	permission string
	entered    time.Time // when the last entry was made
	times      int       // since then
}

// add counts a denied call. It returns the number of calls that an entry must
// report now, or zero if the last entry is less than a second old.
func (d *denials) add(key denialKey, c Caller, permission string, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		d.all.Put(maxDenials, key, &denial{caller: c, permission: permission, entered: now})
		return 1
	}
	one.caller, one.permission = c, permission
	one.times++
	if one.isFresh(now) {
		return 0
	}
	n := one.times
	one.times, one.entered = 0, now
	return n
}

// isFresh reports whether the last entry is less than a second old.
func (one *denial) isFresh(now time.Time) bool {
	age := now.Sub(one.entered)
	return age >= 0 && age < denialsEvery
}

// due returns the calls that wait for an entry, or all of them if all is true. It
// forgets calls that were not repeated.
func (d *denials) due(now time.Time, all bool) map[denialKey]denial {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := map[denialKey]denial{}
	for key, one := range d.all {
		switch {
		case one.isFresh(now) && !all:
		case one.times == 0:
			delete(d.all, key)
		default:
			found[key] = *one
			one.times, one.entered = 0, now
		}
	}
	return found
}

// Denied enters in the log that a call ended in ErrForbidden, in a full audit. One
// entry reports the number of equal calls of an application, or of a proxy without
// a key, within a second. It names the host that data would have been sent to.
func (c Caller) Denied(ctx context.Context, call, permission string, err error) {
	v := c.Vault
	if !v.FullAudit || !errors.Is(err, fault.ErrForbidden) {
		return
	}
	if host := fault.HostOf(err); host != "" {
		call += " to " + host
	}
	key := denialKey{c.Tenant(), c.ApplicationID(), c.Proxy(), call}
	kept := c
	kept.Unit = Unit{}
	if n := v.denials.add(key, kept, permission, v.Now()); n > 0 {
		c.enterDenials(ctx, call, permission, n)
	}
}

// enterDenials writes an entry about denied calls. If possible it writes outside a
// transaction of the application, so that a rollback does not remove the entry.
func (c Caller) enterDenials(ctx context.Context, call, permission string, n int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialWait)
	defer cancel()
	if c.tx != nil && c.tx.beside() {
		c.tx = nil
	}
	op := &Op{Caller: c, Now: c.Vault.Now()}
	e := op.Entry(audit.Denied, audit.Tenant, c.Tenant().String())
	switch {
	case c.IsStranger():
		e.EntityType, e.EntityID = audit.Proxy, c.Proxy().String()
	case c.ApplicationID() != uuid.UUID{}:
		e.EntityType, e.EntityID = audit.Application, c.ApplicationID().String()
	}
	e.Message = audit.DeniedMessage(call, permission, n)
	ch := op.Change()
	ch.Logs = []storage.Log{e}
	if err := op.Apply(ctx, ch); err != nil {
		c.Vault.Logger.ErrorContext(ctx, "denied calls are not in the log", "tenant_id", c.Tenant(), "calls", n, "error", err)
	}
}

// enterDue writes the entries about denied calls that are due, or all entries if
// all is true.
func (v *Vault) enterDue(ctx context.Context, all bool) {
	for key, one := range v.denials.due(v.Now(), all) {
		one.caller.enterDenials(ctx, key.call, one.permission, one.times)
	}
}

// auditWait bounds how long the start and the stop of a vault wait for their log
// entries. After the start, the remaining entries are written later.
const auditWait = 5 * time.Second

// Audit writes the entries of a full audit that no call writes: the start of the
// vault, repeated denials, and the stop. It works in the background until the
// context ends, and returns when the start is in the logs.
func (v *Vault) Audit(ctx context.Context, background func(func())) {
	started := make(chan struct{})
	background(func() {
		v.enterEverywhere(ctx, audit.Start)
		close(started)
		pace.Every(ctx, denialsEvery, func() { v.enterDue(ctx, false) })
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditWait)
		defer cancel()
		v.enterDue(ctx, true)
		v.enterEverywhere(ctx, audit.Stop)
	})
	select {
	case <-started:
	case <-time.After(auditWait):
	}
}

const (
	// tenantsAtOnce is how many logs get an entry concurrently.
	tenantsAtOnce = 16
	// tenantsPage is how many tenants are read per query.
	tenantsPage = 256
)

// enterEverywhere writes an entry of the vault itself to the log of every tenant.
func (v *Vault) enterEverywhere(ctx context.Context, operation string) {
	far := v.Now().AddDate(100, 0, 0)
	for after := (storage.ID{}); ; {
		page, err := v.Store.LogTenants(ctx, far, after, tenantsPage)
		more := err == nil && len(page) > 0
		if more {
			after = page[len(page)-1]
			err = v.forEach(page, func(op *Op) error { return op.enterOwn(ctx, operation) })
		}
		if err != nil {
			v.Logger.ErrorContext(ctx, "the "+operation+" of the vault is not in every log", "error", err)
		}
		if !more || ctx.Err() != nil { // a tenant whose log cannot be written hides no others
			return
		}
	}
}

// forEach runs operations of the vault itself for tenants, some of them
// concurrently.
func (v *Vault) forEach(tenants []storage.ID, do func(*Op) error) error {
	return pace.Each(tenantsAtOnce, tenants, func(tenant storage.ID) error { return do(v.System(tenant)) })
}

// enterOwn writes an entry of the vault itself about the log of a tenant.
func (op *Op) enterOwn(ctx context.Context, operation string) error {
	err := op.Refresh(ctx)
	if errors.Is(err, fault.ErrNoTenant) {
		return nil // it is being deleted
	}
	if err != nil {
		return err
	}
	return op.LogReads(ctx, operation, Entity{Type: audit.Log, ID: op.Tenant().String()})
}

// LogOwnRead enters in the log that the tenant's log was read, in a full audit.
func (op *Op) LogOwnRead(ctx context.Context) error {
	if !op.Vault.FullAudit {
		return nil
	}
	return op.LogReads(ctx, audit.Read, Entity{Type: audit.Log, ID: op.Tenant().String()})
}
