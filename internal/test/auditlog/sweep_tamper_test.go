package auditlog_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/given"
	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// A call that deletes a token with a log entry opens the row first. If the row was
// altered, the call fails, the row stays, and there is an alarm.
func TestAlteredTokensAreNotDeleted(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	ctx, o := t.Context(), v.Owner
	refused := func(what, id string, failed bool) {
		t.Helper()
		alarms := heard.take()
		if got := given.Operations(t, v, id); !failed || len(alarms) != 1 || !slices.Equal(got, []string{"create"}) {
			t.Errorf("%s: failed %t, alarms %q, log %q", what, failed, alarms, got)
		}
	}
	for column, value := range map[string]string{
		"type": "'card_number'", "containers": "'/other/'", "set_id": "randomblob(16)", "created_by": "randomblob(16)",
		"expires_at": fmt.Sprint(v.Clock.Now().Add(time.Hour).UnixMicro()), "body": "randomblob(100)",
	} {
		given.Create(t, o.Client, given.Text(column, "x"))
		exec("UPDATE vault_tokens SET "+column+" = "+value+" WHERE id = ?", column)
		refused("delete after a change of "+column, column, o.DeleteToken(ctx, column) != nil)
		done, err := o.EraseTokens(ctx, vault.EraseParams{Query: "id:" + column, Reason: "case"})
		refused("erase after a change of "+column, column, err == nil && done.Count == 0 && done.Left == 1)
	}
	given.Create(t, o.Client, given.Text("live", "x"))
	exec("UPDATE vault_tokens SET expires_at = 1 WHERE id = 'live'")
	_, err := o.CreateToken(ctx, given.Text("live", "x"))
	refused("create in the place of a token that seems to have expired", "live", err != nil)
	_, _, err = o.Once(ctx, vault.IdempotencyKey{Key: "abc"}, func(ctx context.Context, o *vault.Owner) (vault.StoredResponse, error) {
		_, err := o.CreateToken(ctx, given.Text("live", "x"))
		return vault.StoredResponse{}, err
	})
	refused("create inside of Once", "live", err != nil)
}

// An erasure leaves tokens that do not open, or that someone entered under a
// person's metadata, and erases the others.
func TestEraseLeavesAlteredTokens(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	const bad = 250 // more than one piece
	for i := range bad + 2 {
		id := fmt.Sprint("jane", i)
		given.Create(t, v.Owner.Client, vault.TokenParams{ID: id, Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"person": "jane"}})
	}
	given.Create(t, v.Owner.Client, vault.TokenParams{ID: "john", Type: vault.TypeGeneric, Data: "x", Metadata: map[string]string{"person": "john"}})
	exec("UPDATE vault_tokens SET containers = '/x/' WHERE id LIKE 'jane%' AND id NOT IN ('jane0', 'jane251')")
	exec(`INSERT INTO vault_token_hashes (tenant_id, hash, ord) SELECT h.tenant_id, h.hash, j.ord FROM vault_token_hashes h, vault_tokens t, vault_tokens j
		WHERE t.tenant_id = h.tenant_id AND t.ord = h.ord AND t.id = 'jane0' AND j.id = 'john' ON CONFLICT DO NOTHING`)
	done := must.Get(v.Owner.EraseTokens(t.Context(), vault.EraseParams{Query: "metadata.person:jane", Reason: "case"}))(t)
	given.Same(t, "erased, left and alarms", []any{done.Count, done.Left, len(heard.take())}, []any{2, bad + 1, bad + 1})
	given.Get(t, v.Owner.Client, "john")
}

// The same for applications, reactors, proxies and sessions.
func TestAlteredRecordsAreNotDeleted(t *testing.T) {
	t.Parallel()
	v, exec, heard := alarmed(t, vault.Config{})
	ctx, o := t.Context(), v.Owner
	must.Get(v.Public.CreateSession(ctx))(t)
	must.Get(o.CreateReactor(ctx, given.ReactorParams("r")))(t)
	must.Get(o.CreateProxy(ctx, vault.ProxyParams{Name: "p", DestinationURL: "https://example.com"}))(t)
	exec("UPDATE vault_records SET name = 'other'")
	for kind, remove := range map[string]func(context.Context, uuid.UUID) error{
		"application": o.DeleteApplication, "reactor": o.DeleteReactor, "proxy": o.DeleteProxy, "session": o.DeleteSession,
	} {
		var id []byte
		must.Do(t, v.DB.QueryRowContext(ctx, `SELECT max(id) FROM vault_records WHERE kind = ?`, kind).Scan(&id))
		err := remove(ctx, uuid.UUID(id))
		if got := given.Operations(t, v, uuid.UUID(id).String()); err == nil || !slices.Equal(got, []string{"create"}) {
			t.Errorf("%s: %v, log %q", kind, err, got)
		}
		given.Same(t, kind, heard.take(), []string{"unreadable"})
	}
}
