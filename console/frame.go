package console

import (
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// view is what every page is made of.
type view struct {
	Title  string
	Page   string // which entry of the navigation is current
	Root   string
	User   User
	Form   string // the token of forms
	Tenant *vault.Tenant
	Others []crumb // the same page of other tenants
	More   int     // tenants that Others leaves out
	Crumbs []crumb // the pages above this one
	Done   string  // what an action has done
	Body   any
}

// crumb is a link to a page.
type crumb struct{ Text, Href string }

// May reports whether the user may do what needs a role.
func (v view) May(role string) bool {
	return v.User.Role >= map[string]Role{"operator": Operator, "owner": Owner}[role]
}

// In leads to the pages of the tenant.
func (v view) In() string { return v.Root + "tenants/" + v.Tenant.ID.String() + "/" }

// view returns the frame of a page.
func (q *request) view(page, title string, tenant *vault.Tenant, body any) view {
	v := view{Title: title, Page: page, Root: q.root(), User: q.user, Form: q.formToken(), Tenant: tenant,
		Done: done[q.r.URL.Query().Get("done")], Body: body}
	if tenant != nil {
		v.Crumbs = v.crumbs()
		v.Others, v.More = q.otherTenants(&v)
	}
	return v
}

// sections are the names of a tenant's pages, by their addresses.
var sections = map[string]string{
	"applications": "Applications", "explain": "Explain", "tokens": "Tokens", "log": "Log", "code": "Reactors and proxies", "sessions": "Sessions",
}

// crumbs returns the pages above one of a tenant.
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

// mostOthers bounds the tenants to switch to.
const mostOthers = 20

// otherTenants returns the newest other tenants, each with the page that the user
// looks at, and how many more there are. A page does without when they cannot be read.
func (q *request) otherTenants(v *view) (others []crumb, more int) {
	list, err := q.vault.Tenants(q.r.Context(), vault.PageParams{Size: mostOthers})
	if err != nil {
		return nil, 0
	}
	rest := ""
	if sections[v.Page] != "" {
		rest = "/" + v.Page
	}
	for i := range list.Data {
		if t := &list.Data[i]; t.ID != v.Tenant.ID {
			others = append(others, crumb{t.Name, v.Root + "tenants/" + t.ID.String() + rest})
		}
	}
	return others, max(0, list.Pagination.TotalItems-1-len(others))
}

// refusal is a page that says why there is no other, and where to go on.
type refusal struct {
	Detail string
	Ways   []crumb
}

// ways lead on from a page that could not be shown: to the list that it belongs to,
// and to the overview.
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

// done are the messages after an action, by what is in the address.
var done = map[string]string{
	"saved": "Saved.", "deleted": "The application was deleted.", "ended": "The session has ended.", "retried": "The job will run again.",
	"discarded": "The job was discarded.", "rotating": "The rotation has started.",
}

// fromConsole begins the origin of log entries that the console makes.
const fromConsole = "console"

// maxOrigin is how many characters of an origin the log keeps.
const maxOrigin = 45

// origin says in the log that a call was made in the console, and from which
// address. An address that is too long is written as its network.
func origin(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return fromConsole
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return fromConsole
	}
	addr = addr.Unmap().WithZone("")
	text := fromConsole + " " + addr.String()
	if len(text) > maxOrigin {
		network, _ := addr.Prefix(64) // only an IPv6 address is that long
		text = fromConsole + " " + network.String()
	}
	return text
}

// fromTheConsole reports whether an entry is of something done in the console.
func fromTheConsole(e *vault.LogEntry) bool {
	rest, ok := strings.CutPrefix(e.Origin, fromConsole)
	return ok && (rest == "" || rest[0] == ' ')
}

// consoleRead reports whether an entry is of a read made in the console.
func consoleRead(e *vault.LogEntry) bool {
	return fromTheConsole(e) && e.Operation == vault.OperationRead
}
