package console

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// pager links to the pages of a list.
type pager struct {
	Page, Pages, Total int
	Capped             bool
	Query              template.URL // of the page's URL, without the page number
}

// Previous returns the number of the previous page, or 0 on the first page.
func (p pager) Previous() int { return p.Page - 1 }

// Next returns the number of the next page, or 0 on the last page.
func (p pager) Next() int {
	if p.Page >= p.Pages {
		return 0
	}
	return p.Page + 1
}

func (q *request) pager(p vault.Pagination) pager {
	rest := q.r.URL.Query()
	for _, name := range []string{"page", "done"} {
		rest.Del(name)
	}
	return pager{Page: p.PageNumber, Pages: p.TotalPages, Total: p.TotalItems, Capped: p.TotalIsCapped, Query: query(rest)}
}

// pageParams returns the page that the URL names.
func (q *request) pageParams() vault.PageParams {
	n := 0
	_ = json.Unmarshal([]byte(q.r.URL.Query().Get("page")), &n) // anything else is the first page
	return vault.PageParams{Page: max(n, 1), Size: listSize}
}

const listSize = 50

// tenants lists the tenants.
func (q *request) tenants() error {
	list, err := q.vault.ListTenants(q.r.Context(), q.pageParams())
	if err != nil {
		return err
	}
	b := &tenantsBody{Pager: q.pager(list.Pagination), Recorded: q.opts.Recorder != nil}
	for i := range list.Data {
		row, err := q.tenantRow(&list.Data[i])
		if errors.Is(err, vault.ErrNotFound) {
			continue // it was deleted after the list was read
		}
		if err != nil {
			return err
		}
		b.Rows = append(b.Rows, *row)
	}
	return q.show(http.StatusOK, "tenants", q.view("tenants", "Tenants", nil, b))
}

// tenantsBody is the page of all tenants.
type tenantsBody struct {
	Rows     []tenantRow
	Pager    pager
	Recorded bool // error counts are known
}

// tenantRow is a tenant in a table.
type tenantRow struct {
	*vault.Tenant
	Tokens, Errors int
	KeyAge         string
}

func (q *request) tenantRow(t *vault.Tenant) (*tenantRow, error) {
	if t.Unreadable {
		return &tenantRow{Tenant: t}, nil
	}
	stats, err := q.vault.Tenant(t.ID).Stats(q.r.Context())
	if err != nil {
		return nil, err
	}
	row := &tenantRow{Tenant: t, Tokens: stats.Tokens, KeyAge: days(q.vault.Now().Sub(stats.SealedSince(t)))}
	if q.opts.Recorder != nil {
		row.Errors = q.opts.Recorder.errorsOf(t.ID)
	}
	return row, nil
}

// tenantBody is the page of a tenant.
type tenantBody struct {
	Stats      *vault.Stats
	Types      []count
	Containers []count
	More       int // containers not shown
	Rotation   *rotationView
	Problems   problems
}

// count is a name with a number.
type count struct {
	Name string
	N    int
}

// mostContainers bounds the number of containers shown.
const mostContainers = 100

// countsOf sorts counts, largest first.
func countsOf[K ~string](counts map[K]int, most int) (out []count, more int) {
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, count{string(name), counts[name]})
	}
	slices.SortStableFunc(out, func(a, b count) int { return b.N - a.N })
	if len(out) > most {
		return out[:most], len(out) - most
	}
	return out, 0
}

// tenant shows a tenant.
func (q *request) tenant(c *vault.Owner, t *vault.Tenant) error {
	return q.showTenant(c, t, http.StatusOK, nil)
}

// showTenant shows the page. The form shows the values of t.
func (q *request) showTenant(c *vault.Owner, t *vault.Tenant, status int, bad problems) error {
	stats, err := c.Stats(q.r.Context())
	if err != nil {
		return err
	}
	body := &tenantBody{Stats: stats, Rotation: q.rotations.view(t.ID), Problems: bad}
	body.Types, _ = countsOf(stats.TokensByType, mostContainers)
	body.Containers, body.More = countsOf(stats.TokensByContainer, mostContainers)
	return q.show(status, "tenant", q.view("tenant", t.Name, t, body))
}

// saveTenant changes the name and the settings.
func (q *request) saveTenant(c *vault.Owner, t *vault.Tenant) error {
	name, dedup := q.r.PostForm.Get("name"), q.r.PostForm.Get("deduplicate_tokens") != ""
	_, err := c.PatchTenant(q.r.Context(), map[string]any{"name": name, "settings": map[string]bool{"deduplicate_tokens": dedup}})
	if bad := problemsOf(err); bad != nil {
		t.Name, t.Settings.DeduplicateTokens = name, dedup
		return q.showTenant(c, t, http.StatusBadRequest, bad)
	}
	if err != nil {
		return err
	}
	return q.seeOther(q.tenantPath(), "saved")
}

// rotate starts the rotation of the tenant's keys.
func (q *request) rotate(c *vault.Owner, t *vault.Tenant) error {
	stats, err := c.Stats(q.r.Context())
	if err != nil {
		return err
	}
	ctx := context.WithoutCancel(q.r.Context()) // the rotation continues when the browser leaves
	q.rotations.start(t.ID, stats.Tokens, func(progress func(rows, tenants int)) error {
		err := q.vault.RotateDataKeys(ctx, t.ID, &vault.RotateOptions{Progress: progress, User: q.user.ID})
		if err != nil {
			q.opts.Logger.ErrorContext(ctx, "console: a rotation failed", "tenant", t.ID, "error", err)
		}
		return err
	})
	return q.seeOther(q.tenantPath(), "rotating")
}

// problems are the error messages about the fields of a form, by path.
type problems map[string][]string

// Of returns the problems of a field as one text.
func (p problems) Of(field string) string { return strings.Join(p[field], "; ") }

// Text returns the problems of a field and its parts as one text.
func (p problems) Text(field string) string { return strings.Join(p.Under(field), "; ") }

// Under returns the problems of a field and its parts, one text for each.
func (p problems) Under(field string) []string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(p)) {
		rest, ok := strings.CutPrefix(path, field)
		if !ok || rest != "" && rest[0] != '.' && rest[0] != '[' {
			continue
		}
		out = append(out, strings.TrimSpace(strings.TrimPrefix(rest, ".")+" "+p.Of(path)))
	}
	return out
}

// problemsOf returns the problems of an invalid input, or nil for another error.
func problemsOf(err error) problems {
	if bad, ok := errors.AsType[*vault.InvalidError](err); ok {
		return problems(bad.Fields)
	}
	return nil
}
