package console

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// applications lists the applications of a tenant.
func (q *request) applications(c *vault.Owner, t *vault.Tenant) error {
	list, err := c.ListApplications(q.r.Context(), vault.ListApplicationsParams{PageParams: q.pageParams()})
	if err != nil {
		return err
	}
	return q.show(http.StatusOK, "applications", q.view("applications", "Applications", t, struct {
		Rows  []vault.Application
		Pager pager
	}{list.Data, q.pager(list.Pagination)}))
}

// applicationBody is the page of an application. A form shows its rights.
type applicationBody struct {
	Application *vault.Application
	Keys        []vault.ApplicationKey
	Permissions []choice
	Rules       []ruleForm
	Blank       ruleForm // for another rule
	Expires     string
	Problems    problems
	RulesFit    bool   // management applications have none
	Shown       string // mark of the application when the form was rendered
	Stale       bool   // changed since the form was rendered, so the form was not saved
	// Echoes counts the requests of the last day in whose responses data was replaced.
	CountsEchoes bool
	Echoes       int
}

// mark identifies the parameters of an application, which include its rights. A
// different mark means that they were changed.
func mark(a *vault.Application) string {
	text, _ := json.Marshal(a.Params()) // plain fields
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// choice is a box to tick.
type choice struct {
	Value string
	On    bool
}

// ruleForm is a rule in a form.
type ruleForm struct {
	N            int
	Priority     string
	Description  string
	Container    string
	Conditions   string // one per line: attribute operator value
	Transform    string
	Permissions  []choice
	Destinations string // one per line
}

func choices(all, held []vault.Permission) []choice {
	out := make([]choice, len(all))
	for i, p := range all {
		out[i] = choice{string(p), slices.Contains(held, p)}
	}
	return out
}

// formOf fills a form with the rights of an application.
func formOf(a *vault.Application) *applicationBody {
	b := &applicationBody{Application: a, Shown: mark(a), Expires: inputTime(a.ExpiresAt), RulesFit: a.Type != vault.ApplicationManagement, Permissions: choices(vault.AllPermissions(a.Type), a.Permissions)}
	can := vault.AllPermissions(a.Type)
	for i, r := range a.Rules {
		f := ruleForm{N: i, Priority: strconv.Itoa(r.Priority), Description: r.Description, Container: r.Container,
			Transform: string(r.Transform), Permissions: choices(can, r.Permissions), Destinations: strings.Join(r.Destinations, "\n")}
		var lines []string
		for _, c := range r.Conditions {
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Attribute, c.Operator, c.Value))
		}
		f.Conditions = strings.Join(lines, "\n")
		b.Rules = append(b.Rules, f)
	}
	b.Blank = ruleForm{N: len(a.Rules), Transform: string(vault.TransformMask), Permissions: choices(can, nil)}
	return b
}

// inputTime formats a time for an input element. The zero time gives the empty
// string.
func inputTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	if t.Second() == 0 && t.Nanosecond() == 0 {
		return t.UTC().Format("2006-01-02T15:04")
	}
	return t.UTC().Format("2006-01-02T15:04:05.999")
}

// application shows an application.
func (q *request) application(c *vault.Owner, t *vault.Tenant) error {
	a, err := c.GetApplication(q.r.Context(), q.id("id"))
	if err != nil {
		return err
	}
	body := formOf(a)
	if q.opts.Recorder != nil && slices.ContainsFunc(a.Rules, func(r vault.AccessRule) bool { return r.Destinations != nil }) {
		body.CountsEchoes, body.Echoes = true, q.opts.Recorder.echoesOf(a.ID)
	}
	return q.showApplication(c, t, http.StatusOK, a, body)
}

// showApplication shows the page of an application, with its keys.
func (q *request) showApplication(c *vault.Owner, t *vault.Tenant, status int, a *vault.Application, body *applicationBody) (err error) {
	if body.Keys, err = c.ListApplicationKeys(q.r.Context(), a.ID); err != nil {
		return err
	}
	return q.show(status, "application", q.view("applications", a.Name, t, body))
}

// saveApplication replaces the rights of the application. It refuses a form that
// shows an older state, because the form could restore rights that were revoked
// since.
func (q *request) saveApplication(c *vault.Owner, t *vault.Tenant) error {
	a, err := c.GetApplication(q.r.Context(), q.id("id"))
	if err != nil {
		return err
	}
	if q.r.PostForm.Get("shown") != mark(a) {
		body := formOf(a)
		body.Stale = true
		return q.showApplication(c, t, http.StatusConflict, a, body)
	}
	p, bad := readApplication(a, q.r.PostForm)
	if bad == nil {
		_, err = c.ReplaceApplication(q.r.Context(), a.ID, p)
		bad = problemsOf(err)
	}
	if bad != nil {
		filled := *a
		filled.Name, filled.Permissions, filled.Rules, filled.ExpiresAt = p.Name, p.Permissions, p.Rules, p.ExpiresAt
		body := formOf(&filled)
		body.Problems, body.Shown = bad, mark(a)
		return q.showApplication(c, t, http.StatusBadRequest, a, body)
	}
	if err != nil {
		return err
	}
	q.names.forget(nameKey{t.ID, a.ID, "application"})
	return q.seeOther(q.tenantPath()+"/applications/"+a.ID.String(), "saved")
}

// maxRuleForms bounds the number of rules in a form.
const maxRuleForms = 101

// readApplication reads the form. The form has no identities, so they stay.
func readApplication(a *vault.Application, form url.Values) (vault.ApplicationParams, problems) {
	p := vault.ApplicationParams{Name: form.Get("name"), Type: a.Type, Identities: a.Identities}
	bad := problems{}
	for _, value := range form["permissions"] {
		p.Permissions = append(p.Permissions, vault.Permission(value))
	}
	text := strings.TrimSpace(form.Get("expires_at"))
	at, ok := readTime(text)
	if p.ExpiresAt = at; !ok {
		bad["expires_at"] = []string{timeProblem}
	}
	if text == inputTime(a.ExpiresAt) {
		p.ExpiresAt = a.ExpiresAt // the form has no fractions of a second
	}
	for n := range maxRuleForms {
		name := fmt.Sprintf("rule.%d.", n)
		if form.Get(name+"priority") == "" {
			continue // not filled in, or deleted
		}
		r, err := readRule(form, name)
		if err != "" {
			bad[fmt.Sprintf("rules[%d].conditions", len(p.Rules))] = []string{err}
		}
		p.Rules = append(p.Rules, r)
	}
	if len(bad) == 0 {
		return p, nil
	}
	return p, bad
}

func readRule(form url.Values, name string) (r vault.AccessRule, problem string) {
	r = vault.AccessRule{Description: form.Get(name + "description"), Container: form.Get(name + "container"), Transform: vault.Transform(form.Get(name + "transform"))}
	r.Priority, _ = strconv.Atoi(form.Get(name + "priority")) // 0 is refused
	for _, value := range form[name+"permissions"] {
		r.Permissions = append(r.Permissions, vault.Permission(value))
	}
	for line := range strings.Lines(form.Get(name + "destinations")) {
		if to := strings.TrimSpace(line); to != "" {
			r.Destinations = append(r.Destinations, to)
		}
	}
	for line := range strings.Lines(form.Get(name + "conditions")) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		parts := strings.SplitN(strings.TrimSpace(line), " ", 3)
		if len(parts) < 3 {
			return r, "must have lines such as: id starts_with test-"
		}
		r.Conditions = append(r.Conditions, vault.Condition{Attribute: parts[0], Operator: parts[1], Value: parts[2]})
	}
	return r, ""
}

// deleteApplication deletes an application after the user has confirmed it.
func (q *request) deleteApplication() error {
	path := q.tenantPath() + "/applications"
	if q.r.PostForm.Get("sure") == "" {
		return q.seeOther(path+"/"+q.id("id").String(), "")
	}
	if err := q.client().DeleteApplication(q.r.Context(), q.id("id")); err != nil {
		return err
	}
	q.names.forget(nameKey{q.id("tenant"), q.id("id"), "application"})
	return q.seeOther(path, "deleted")
}

// deleteKey deletes an API key of an application.
func (q *request) deleteKey() error {
	if q.r.PostForm.Get("sure") == "" {
		return q.seeOther(q.tenantPath()+"/applications/"+q.id("id").String(), "")
	}
	if err := q.client().DeleteApplicationKey(q.r.Context(), q.id("id"), q.id("key")); err != nil {
		return err
	}
	return q.seeOther(q.tenantPath()+"/applications/"+q.id("id").String(), "key")
}

// sessionRow is a session in a table.
type sessionRow struct {
	*vault.SessionInfo
	Creator, Authorizer ref
}

func (q *request) sessions(c *vault.Owner, t *vault.Tenant) error {
	list, err := c.ListSessions(q.r.Context(), q.pageParams())
	if err != nil {
		return err
	}
	rows, in := make([]sessionRow, len(list.Data)), q.in()
	for i := range list.Data {
		s := &list.Data[i]
		rows[i] = sessionRow{s, q.actorRef(c, in, s.ApplicationID), q.actorRef(c, in, s.AuthorizedBy)}
	}
	return q.show(http.StatusOK, "sessions", q.view("sessions", "Sessions", t, struct {
		Rows  []sessionRow
		Pager pager
	}{rows, q.pager(list.Pagination)}))
}
