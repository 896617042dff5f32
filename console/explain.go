package console

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// explainBody is the page that explains access decisions.
type explainBody struct {
	Applications []vault.Application
	Sessions     []vault.SessionInfo
	Permissions  []vault.PermissionInfo
	Holder       string
	Permission   string
	Token        string
	Containers   string
	Explanation  *vault.Explanation
	Problems     problems
}

// explain shows the form, with a decision if the form is filled in.
func (q *request) explain(c *vault.Owner, t *vault.Tenant) error {
	ctx, asked := q.r.Context(), q.r.URL.Query()
	b := &explainBody{Holder: asked.Get("holder"), Permission: asked.Get("permission"), Token: strings.TrimSpace(asked.Get("token")), Containers: asked.Get("containers")}
	apps, err := c.ListApplications(ctx, vault.ListApplicationsParams{PageParams: vault.PageParams{Size: 100}})
	if err != nil {
		return err
	}
	sessions, err := c.ListSessions(ctx, vault.PageParams{Size: 100})
	if err != nil {
		return err
	}
	b.Applications, b.Sessions = apps.Data, sessions.Data
	if b.Permissions, err = c.ListPermissions(ctx); err != nil {
		return err
	}
	if b.Holder != "" {
		b.ask(q, c)
	}
	return q.show(http.StatusOK, "explain", q.view("explain", "Explain", t, b))
}

// ask puts the decision, or the problems of the form, on the page.
func (b *explainBody) ask(q *request, c *vault.Owner) {
	p := vault.ExplainParams{Permission: vault.Permission(b.Permission), TokenID: b.Token, Containers: strings.Fields(b.Containers)}
	kind, text, _ := strings.Cut(b.Holder, " ")
	id, _ := uuid.Parse(text)
	if kind == "session" {
		p.SessionID = id
	} else {
		p.ApplicationID = id
	}
	var err error
	if b.Explanation, err = c.Explain(q.r.Context(), p); err == nil {
		return
	}
	b.Problems = problems{}
	for field, messages := range problemsOf(err) {
		b.Problems[explainField(field)] = messages
	}
	switch {
	case len(b.Problems) > 0:
	case b.Token != "":
		b.Problems["token"] = []string{"there is no such token, or the application or session is gone"}
	default:
		b.Problems["holder"] = []string{"there is no such application or session"}
	}
}

// explainField returns the form field that a problem is about.
func explainField(path string) string {
	switch name, _, _ := strings.Cut(path, "["); name {
	case "application_id", "session_id":
		return "holder"
	case "token_id":
		return "token"
	case "permission", "containers":
		return name
	default:
		return "other"
	}
}

// onlyTo describes a use that sends data to destinations and shows nothing.
func onlyTo(destinations []string) string {
	return "the data is sent only to " + strings.Join(destinations, ", ") + ", and not shown"
}

// gets describes how much of a token's data a caller sees.
func gets(t vault.Transform) string {
	switch t {
	case vault.TransformReveal:
		return "the data in clear (reveal)"
	case vault.TransformMask:
		return "masked data (mask)"
	default:
		return "no data (redact)"
	}
}

// outcome describes why a rule decides or does not. It follows the rule's name.
func outcome(r vault.AskedRule) string {
	switch r.Outcome {
	case "not_asked":
		return "is not reached"
	case "other_permission":
		return "does not have this permission"
	default:
		return r.Text()
	}
}
