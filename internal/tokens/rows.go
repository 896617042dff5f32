package tokens

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/access"
	"github.com/seed-72ea4aab/vault/internal/admission"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/fault"
	"github.com/seed-72ea4aab/vault/internal/logs/audit"
	"github.com/seed-72ea4aab/vault/internal/token"
	"github.com/seed-72ea4aab/vault/storage"
)

// Row reads the row of a token that has not expired.
func Row(ctx context.Context, op *core.Op, id string) (*storage.Token, error) {
	rows, err := Rows(ctx, op, []string{id})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || Expired(&rows[0], op.Now) {
		return nil, fault.ErrNoToken
	}
	return &rows[0], nil
}

// Rows reads rows by id, including expired ones.
func Rows(ctx context.Context, op *core.Op, ids []string) ([]storage.Token, error) {
	impossible := func(id string) bool { return !token.PossibleID(id) }
	if slices.ContainsFunc(ids, impossible) {
		ids = slices.DeleteFunc(slices.Clone(ids), impossible)
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return op.DB().Tokens(ctx, op.TenantID(), ids)
}

// Expired reports whether a row has expired.
func Expired(row *storage.Token, now time.Time) bool {
	return !row.ExpiresAt.IsZero() && !row.ExpiresAt.After(now)
}

// Deletion returns the deletion of a row.
func Deletion(row *storage.Token) storage.TokenDelete {
	return storage.TokenDelete{Ord: row.Ord, Rev: row.Rev, Set: row.Set, Type: row.Type}
}

// expire deletes an expired row that is in the way of an operation, with a log
// entry. It deletes the row at once, even inside of Once, unless another operation
// has already changed it. A row that does not open stays, and the operation fails.
func expire(ctx context.Context, op *core.Op, row *storage.Token) error {
	if err := op.Vault.Skew.Err(); err != nil {
		return err
	}
	if err := OpenExpired(ctx, op, row); err != nil {
		return err
	}
	vault := op.Vault.System(op.TenantID())
	ch := vault.Change()
	ch.DeleteTokens = []storage.TokenDelete{Deletion(row)}
	ch.Logs = []storage.Log{vault.Entry(audit.Expire, row.Type, row.ID)}
	if err := op.Apply(ctx, ch); !errors.Is(err, storage.ErrStale) {
		return err
	}
	return nil
}

// treeTimes is the maximum ratio of the memory of a token's tree to its sealed bytes:
// see package admission.
const treeTimes = 14

// Tree returns the memory of the tree of a stored token, if it is large, or
// 0.
func Tree(row *storage.Token) int {
	if len(row.Body) < core.LargeBody {
		return 0
	}
	return treeTimes * len(row.Body)
}

// Size returns the number of sealed bytes of rows.
func Size(rows []storage.Token) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Body) + len(rows[i].CVC)
	}
	return size
}

// Get returns a token as the caller may see it.
func Get(ctx context.Context, op *core.Op, id string) (Token, error) {
	row, logged, err := rowToRead(ctx, op, id)
	if err != nil {
		return Token{}, err
	}
	transform, ok := op.Grant().Decide(access.TokenRead, row.ID, row.Containers)
	if !ok {
		return Token{}, fault.PermissionOnToken(access.TokenRead)
	}
	t, err := Open(ctx, op, row)
	if err != nil {
		return Token{}, err
	}
	if !logged {
		if err := op.LogReads(ctx, audit.Read, t.Seen(ctx, op, access.TokenRead, transform, access.Target{})); err != nil {
			return Token{}, err
		}
	}
	return t.View(ctx, transform), ctx.Err()
}

// rowToRead reads the row of a token that has not expired. If the grant
// allows every token, and the storage supports it, the read is logged in the
// same step, and logged is true. A read that binds a response is logged later.
func rowToRead(ctx context.Context, op *core.Op, id string) (row *storage.Token, logged bool, err error) {
	store, ok := op.Vault.Store.(storage.ReadLogger)
	if !ok || op.Uses(ctx) != nil || op.InsideTx() || op.Vault.StrictReadLogs || !token.PossibleID(id) || !op.Grant().OnAll(access.TokenRead) {
		row, err = Row(ctx, op, id)
		return row, false, err
	}
	t, err := op.ReadToken(ctx, store, op.Entry(audit.Read, token.Generic, id))
	if errors.Is(err, storage.ErrNotFound) {
		return nil, false, fault.ErrNoToken
	}
	return &t, true, err
}

// Delete deletes a token.
func Delete(ctx context.Context, op *core.Op, id string) error {
	return core.Retry(func() error { return deleteOnce(ctx, op, id) })
}

func deleteOnce(ctx context.Context, op *core.Op, id string) error {
	row, err := Row(ctx, op, id)
	if err != nil {
		return err
	}
	if _, ok := op.Grant().Decide(access.TokenDelete, row.ID, row.Containers); !ok {
		return fault.PermissionOnToken(access.TokenDelete)
	}
	if _, err := Open(ctx, op, row); err != nil {
		return err // the log must not vouch for a row that was altered
	}
	ch := op.Change()
	ch.DeleteTokens = []storage.TokenDelete{Deletion(row)}
	ch.Logs = []storage.Log{op.Entry(audit.Delete, row.Type, row.ID)}
	return op.Write(ctx, ch)
}

// Seen returns the entity of a token that is about to be shown, for the log. If
// a response will be stored, the entity records how much is shown. If the data may
// only be sent to a target, to is that target.
func (t *Clear) Seen(ctx context.Context, op *core.Op, permission string, shown access.Transform, to access.Target) core.Entity {
	e := t.Entity()
	if op.Uses(ctx) == nil {
		return e
	}
	e.Use = &core.TokenUse{Permission: permission, ID: t.Row.ID, Ord: uuid.UUID(t.Row.Ord), Shown: shown, To: to, Modified: t.Row.ModifiedAt}
	if shown == access.Reveal && t.CVC != "" {
		e.Use.CVCEnds = t.Row.CVCExpiresAt
	}
	return e
}

// seenMasked is Seen for the response of a write, which shows the mask at most.
func (t *Clear) seenMasked(ctx context.Context, op *core.Op, shown access.Transform) core.Entity {
	e := t.Seen(ctx, op, access.TokenRead, min(shown, access.Mask), access.Target{})
	if e.Use != nil {
		e.Use.AnyState, e.Use.Modified = true, time.Time{}
	}
	return e
}

// see opens rows of a list as the caller may see them, and logs the reads.
// Where is the condition of the list.
//
// A row that cannot be opened is shown as unreadable, so that it does not
// hide the others. A list with a condition on hashes omits rows whose hashes
// were altered, because they may not belong to it.
func see(ctx context.Context, op *core.Op, permission string, where storage.Cond, rows []storage.Token, show func(Token)) error {
	seen, byHash := make([]core.Entity, 0, len(rows)), asksHash(where)
	for i := range rows {
		if i%core.ManyRows == core.ManyRows-1 {
			if err := core.Turn(ctx); err != nil {
				return err
			}
		}
		transform, ok := op.Grant().Decide(permission, rows[i].ID, rows[i].Containers)
		if !ok {
			continue // the condition and the rules disagree, so nothing is shown
		}
		t, err := openFound(ctx, op, &rows[i], byHash, where)
		switch {
		case err == nil:
			show(t.View(ctx, transform))
			seen = append(seen, t.Seen(ctx, op, permission, transform, access.Target{}))
		case !Unreadable(err):
			return err
		case !byHash || !errors.Is(err, fault.ErrAltered):
			show(Token{ID: t.Row.ID, TenantID: op.Tenant(), Type: t.Row.Type, CreatedAt: t.Row.CreatedAt, Unreadable: true})
		}
		admission.Of(ctx).Free(Tree(&rows[i]))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return op.LogReads(ctx, audit.Read, seen...)
}

// openFound opens a row of a list. With byHash, the hashes that were sealed
// with the row must also meet the condition.
func openFound(ctx context.Context, op *core.Op, row *storage.Token, byHash bool, where storage.Cond) (Clear, error) {
	t, err := Open(ctx, op, row)
	if err == nil && byHash && !t.foundBy(where) {
		err = cmp.Or(ctx.Err(), fault.ErrAltered)
		if errors.Is(err, fault.ErrAltered) {
			err = op.Vault.Alarm(ctx, core.AlarmAltered, op.Tenant(), t.Entity(), err)
		}
	}
	return t, err
}
