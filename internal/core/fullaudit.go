package core

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/audit"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/storage"
)

const (
	// denialsEvery is the shortest time between two entries about the same denied
	// call of an application.
	denialsEvery = time.Second
	// maxDenials bounds the calls that are remembered as denied.
	maxDenials = 10_000
	// denialWait bounds how long a denied call waits for its entry.
	denialWait = 5 * time.Second
)

// denials counts denied calls between two entries.
type denials struct {
	mu  sync.Mutex
	all map[denialKey]*denial
}

// denialKey is a call of an application; the application is zero for the tenant
// itself.
type denialKey struct {
	tenant, application uuid.UUID
	call                string
}

// denial is a call that was denied.
type denial struct {
	caller     Caller // the last one
	permission string
	entered    time.Time // when the last entry was made
	times      int       // since then
}

// add counts a denied call. It returns how many calls an entry must report now;
// zero if there was an entry within the last second.
func (d *denials) add(key denialKey, c Caller, permission string, now time.Time) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	one := d.all[key]
	if one == nil {
		if d.all == nil || len(d.all) >= maxDenials {
			d.all = map[denialKey]*denial{}
		}
		d.all[key] = &denial{caller: c, permission: permission, entered: now}
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

// due returns the calls that wait for an entry, or all of them, and forgets calls
// that were not repeated.
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

// Denied enters in the log that a call ended in ErrForbidden, in a full audit.
// Calls of strangers are not entered. Of the same calls of an application within a
// second, one entry reports the number.
func (c Caller) Denied(ctx context.Context, call, permission string, err error) {
	v := c.Vault
	if !v.FullAudit || c.IsStranger() || !errors.Is(err, fault.ErrForbidden) {
		return
	}
	key := denialKey{c.Tenant(), c.ApplicationID(), call}
	kept := c
	kept.Place = Place{}
	if n := v.denials.add(key, kept, permission, v.Now()); n > 0 {
		c.enterDenials(ctx, call, permission, n)
	}
}

// enterDenials makes an entry about denied calls, beside a transaction of the
// application if that is possible: a rollback must not take it away.
func (c Caller) enterDenials(ctx context.Context, call, permission string, n int) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), denialWait)
	defer cancel()
	if c.tx != nil && c.tx.beside() {
		c.tx = nil
	}
	op := &Op{Caller: c, Now: c.Vault.Now()}
	e := op.Entry(audit.Denied, audit.Tenant, c.Tenant().String())
	if app := c.ApplicationID(); app != (uuid.UUID{}) {
		e.EntityType, e.EntityID = audit.Application, app.String()
	}
	e.Message = audit.DeniedMessage(call, permission, n)
	ch := op.Change()
	ch.Logs = []storage.Log{e}
	if err := op.Apply(ctx, ch); err != nil {
		c.Vault.Logger.ErrorContext(ctx, "denied calls are not in the log", "tenant_id", c.Tenant(), "calls", n, "error", err)
	}
}

// enterDue makes the entries about denied calls that are due; all says that none
// may wait any longer.
func (v *Vault) enterDue(ctx context.Context, all bool) {
	for key, one := range v.denials.due(v.Now(), all) {
		one.caller.enterDenials(ctx, key.call, one.permission, one.times)
	}
}

// auditWait bounds how long the start and the stop of a vault wait for the entries
// about them. At the start, the remaining entries are made later.
const auditWait = 5 * time.Second

// Audit makes the entries of a full audit that no call makes, in the background until
// the context ends: the start of the vault, repeated denials, and the stop. It
// returns when the start is in the logs.
func (v *Vault) Audit(ctx context.Context, background func(func())) {
	started := make(chan struct{})
	background(func() {
		v.enterEverywhere(ctx, audit.Start)
		close(started)
		v.watchDenials(ctx)
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

// watchDenials makes the entries about denied calls until the context ends.
func (v *Vault) watchDenials(ctx context.Context) {
	tick := time.NewTicker(denialsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			v.enterDue(ctx, false)
		}
	}
}

const (
	// tenantsAtOnce is how many logs get an entry at the same time.
	tenantsAtOnce = 16
	// tenantsPage is how many tenants are read at once.
	tenantsPage = 256
)

// enterEverywhere makes an entry of the vault itself in the log of every tenant.
func (v *Vault) enterEverywhere(ctx context.Context, operation string) {
	far := v.Now().AddDate(100, 0, 0)
	for after := (storage.ID{}); ; {
		page, err := v.Store.LogTenants(ctx, far, after, tenantsPage)
		if err == nil && len(page) > 0 {
			after = page[len(page)-1]
			err = v.enterFor(ctx, page, operation)
		}
		if err != nil {
			v.Logger.ErrorContext(ctx, "the "+operation+" of the vault is not in every log", "error", err)
		}
		if err != nil || len(page) == 0 {
			return
		}
	}
}

func (v *Vault) enterFor(ctx context.Context, tenants []storage.ID, operation string) error {
	var work sync.WaitGroup
	free, errs := make(chan struct{}, tenantsAtOnce), make([]error, len(tenants))
	for i, tenant := range tenants {
		free <- struct{}{}
		work.Go(func() {
			errs[i] = v.System(tenant).enterOwn(ctx, operation)
			<-free
		})
	}
	work.Wait()
	return errors.Join(errs...)
}

// enterOwn makes an entry of the vault itself about the log of a tenant.
func (op *Op) enterOwn(ctx context.Context, operation string) error {
	err := op.Refresh(ctx)
	if errors.Is(err, fault.ErrNoTenant) {
		return nil // it is being deleted
	}
	if err != nil {
		return err
	}
	return op.LogReads(ctx, operation, Entity{audit.Log, op.Tenant().String()})
}

// LogOwnRead enters in a full audit that the log of the tenant was read.
func (op *Op) LogOwnRead(ctx context.Context) error {
	if !op.Vault.FullAudit {
		return nil
	}
	return op.LogReads(ctx, audit.Read, Entity{audit.Log, op.Tenant().String()})
}
