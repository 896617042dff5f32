package vaultclient

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
)

const tenantSelf = "/tenants/self"

// GetTenant returns the tenant of the key. See [vault.Client.GetTenant].
func (c *Client) GetTenant(ctx context.Context) (*vault.Tenant, error) {
	return get[vault.Tenant](ctx, c, &core.VerbGetTenant, tenantSelf, "")
}

// ReplaceTenant changes the name and settings of the tenant. See
// [vault.Client.ReplaceTenant].
func (c *Client) ReplaceTenant(ctx context.Context, p vault.TenantParams) (*vault.Tenant, error) {
	return write[vault.Tenant](ctx, c, &core.VerbReplaceTenant, http.MethodPut, tenantSelf, p)
}

// ListLogs returns a page of the tenant's audit log, newest first. See
// [vault.Client.ListLogs].
func (c *Client) ListLogs(ctx context.Context, p vault.ListLogsParams) (*vault.Page[vault.LogEntry], error) {
	return c.listLogs(ctx, &core.VerbListLogs, p)
}

func (c *Client) listLogs(ctx context.Context, verb *core.Verb, p vault.ListLogsParams) (*vault.Page[vault.LogEntry], error) {
	query := pageQuery(p.PageParams)
	setAll(query.Set, map[string]string{
		"entity_type": p.EntityType, "entity_id": p.EntityID, "start_date": dateText(p.StartDate), "end_date": dateText(p.EndDate),
		"operation": string(p.Operation), "actor_type": string(p.ActorType), "actor_id": idText(p.ActorID),
	})
	return get[vault.Page[vault.LogEntry]](ctx, c, verb, "/logs", query.Encode())
}

func idText(id uuid.UUID) string {
	if id == (uuid.UUID{}) {
		return ""
	}
	return id.String()
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// ListEntityTypes returns the kinds of entities that log entries are about. See
// [vault.Client.ListEntityTypes].
func (c *Client) ListEntityTypes(ctx context.Context) ([]vault.EntityType, error) {
	return plainList[vault.EntityType](ctx, c, &core.VerbListEntityTypes, "/logs/entity-types")
}
