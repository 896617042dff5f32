package console

import (
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// view holds the parts that every page has.
type view struct {
	Title  string
	Page   string // the current entry of the navigation
	Root   string
	User   User
	Form   string // form token
	Leaves bool   // the user can sign out
	Tenant *vault.Tenant
	Others []crumb // the same page of other tenants
	More   int     // tenants that Others leaves out
	Crumbs []crumb // the pages above this one
	Done   string  // message about the last action
	Body   any
}

// crumb is a link to a page.
type crumb struct{ Text, Href string }

// May reports whether the user has at least this role.
func (v view) May(role string) bool {
	return v.User.Role >= map[string]Role{"operator": Operator, "owner": Owner}[role]
}

// In returns the path of the tenant's pages.
func (v view) In() string { return v.Root + "tenants/" + v.Tenant.ID.String() + "/" }

// view returns the parts around the body of a page.
func (q *request) view(page, title string, tenant *vault.Tenant, body any) view {
	v := view{Title: title, Page: page, Root: q.root(), User: q.user, Form: q.formToken(), Leaves: q.opts.SignOut != nil, Tenant: tenant,
		Done: done[q.r.URL.Query().Get("done")], Body: body}
	if tenant != nil {
		v.Crumbs = v.crumbs()
		v.Others, v.More = q.otherTenants(&v)
	}
	return v
}

// sections are the titles of a tenant's pages, by path.
var sections = map[string]string{
	"applications": "Applications", "explain": "Explain", "tokens": "Tokens", "log": "Log", "code": "Reactors and proxies", "sessions": "Sessions",
}

// crumbs returns the pages above a page of a tenant.
func (v *view) crumbs() []crumb {
	all := []crumb{{"Tenants", v.Root + "tenants"}}
	section := sections[v.Page]
	if section == "" {
		return all
	}
	all = append(all, crumb{v.Tenant.Name, strings.TrimSuffix(v.In(), "/")})
	if section != v.Title {
		all = append(all, crumb{section, v.In() + v.Page})
	}
	return all
}

// mostOthers bounds the number of tenants in the menu.
const mostOthers = 20

// otherTenants returns the newest other tenants, each with a link to the same
// page, and how many more exist. If they cannot be read, the page omits them.
func (q *request) otherTenants(v *view) (others []crumb, more int) {
	list, err := q.vault.ListTenants(q.r.Context(), vault.PageParams{Size: mostOthers})
	if err != nil {
		return nil, 0
	}
	rest := ""
	if sections[v.Page] != "" {
		rest = "/" + v.Page
	}
	for i := range list.Data {
		if t := &list.Data[i]; t.ID != v.Tenant.ID && !t.Unreadable {
			others = append(others, crumb{t.Name, v.Root + "tenants/" + t.ID.String() + rest})
		}
	}
	return others, max(0, list.Pagination.TotalItems-1-len(others))
}

// refusal is an error page with links to other pages.
type refusal struct {
	Detail string
	Ways   []crumb
}

// ways returns the links of an error page: to the list that the missing page
// belongs to, and to the overview.
func (q *request) ways() []crumb {
	all := []crumb{{"Overview", q.root()}}
	parts := strings.Split(strings.Trim(q.r.URL.Path, "/"), "/")
	if parts[0] != "tenants" || len(parts) < 3 {
		return append(all, crumb{"All tenants", q.root() + "tenants"})
	}
	page := parts[2]
	if page == "reactors" || page == "proxies" || page == "jobs" {
		page = "code"
	}
	if name := sections[page]; name != "" {
		all = append([]crumb{{name, q.root() + "tenants/" + pathEscape(parts[1]) + "/" + page}}, all...)
	}
	return append(all, crumb{"All tenants", q.root() + "tenants"})
}

// done are the messages after an action, by the key in the URL.
var done = map[string]string{
	"saved": "Saved.", "deleted": "The application was deleted.", "key": "The key was deleted.", "ended": "The session has ended.", "retried": "The job will run again.",
	"discarded": "The job was discarded.", "rotating": "The rotation has started.",
}

// fromConsole is the prefix of the origin in log entries of the console.
const fromConsole = "console"

// maxOrigin is how many characters of an origin the log keeps.
const maxOrigin = 45

// origin marks a call in the log as made in the console, and names the client
// address. It shortens an address that is too long to its network.
func origin(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return fromConsole
	}
	addr := at.Addr().Unmap().WithZone("")
	text := fromConsole + " " + addr.String()
	if len(text) > maxOrigin {
		network, _ := addr.Prefix(64) // only an IPv6 address is that long
		text = fromConsole + " " + network.String()
	}
	return text
}

// fromTheConsole reports whether a log entry is about a call made in the console.
func fromTheConsole(e *vault.LogEntry) bool {
	rest, ok := strings.CutPrefix(e.Origin, fromConsole)
	return ok && (rest == "" || rest[0] == ' ')
}

// consoleRead reports whether a log entry is about a read made in the console.
func consoleRead(e *vault.LogEntry) bool {
	return fromTheConsole(e) && e.Operation == vault.OperationRead
}
