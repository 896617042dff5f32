package console

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// codeBody is the page of reactors, proxies and jobs.
type codeBody struct {
	Reactors      []vault.Reactor
	Proxies       []vault.Proxy
	Dead, Waiting []vault.JobInfo
	Names         map[uuid.UUID]string // of reactors, without deleted ones
	MoreR, MoreP  int                  // not shown
}

// code lists reactors, proxies and jobs.
func (q *request) code(c *vault.Owner, t *vault.Tenant) error {
	ctx, first := q.r.Context(), vault.PageParams{Size: 100}
	reactors, err := c.ListReactors(ctx, vault.ListParams{PageParams: first})
	if err != nil {
		return err
	}
	proxies, err := c.ListProxies(ctx, vault.ListParams{PageParams: first})
	if err != nil {
		return err
	}
	b := &codeBody{Reactors: reactors.Data, Proxies: proxies.Data, Names: map[uuid.UUID]string{},
		MoreR: reactors.Pagination.TotalItems - len(reactors.Data), MoreP: proxies.Pagination.TotalItems - len(proxies.Data)}
	if b.Dead, err = c.ListJobs(ctx, vault.ListJobsParams{Dead: true, Size: 100}); err != nil {
		return err
	}
	if b.Waiting, err = c.ListJobs(ctx, vault.ListJobsParams{Size: 20}); err != nil {
		return err
	}
	for i := range b.Reactors {
		b.Names[b.Reactors[i].ID] = b.Reactors[i].Name
	}
	return q.show(http.StatusOK, "code", q.view("code", "Reactors and proxies", t, b))
}

// programBody is the page of a reactor or a proxy.
type programBody struct {
	Kind          string // reactors or proxies
	ID            uuid.UUID
	Name          string
	Destination   string
	RequireAuth   bool
	Configuration []string // names, never values
	Application   ref
	Sources       []source
	Runs          []logRow // newest first
	Dead          []vault.JobInfo
	CanRun        bool
}

// source is code with the result of a test run beside it.
type source struct {
	Title, Part string // Part: request, response, or empty
	Lines       []sourceLine
	Args        string
	Problem     string
	Trial       *vault.TestRun
}

type sourceLine struct {
	N    int
	Text string
	Bad  bool // the error occurred on this line
}

// linesOf splits code into lines and marks line bad. 0 marks no line.
func linesOf(code string, bad int) []sourceLine {
	texts := strings.Split(strings.TrimSuffix(code, "\n"), "\n")
	out := make([]sourceLine, len(texts))
	for i, text := range texts {
		out[i] = sourceLine{i + 1, strings.TrimSuffix(text, "\r"), i+1 == bad}
	}
	return out
}

// lastBad returns the line of the error if the newest run failed.
func lastBad(runs []logRow) (line int) {
	if len(runs) > 0 {
		line, _ = strconv.Atoi(runs[0].Line()) // 0 if it has none
	}
	return line
}

// recentRuns returns the last runs of a reactor or proxy on all nodes, newest
// first. A run that failed has two entries in the log, and its failure stands for
// both. Entries do not say which start a failure belongs to, so it takes the place
// of the latest start of its actor.
func (q *request) recentRuns(c *vault.Owner, kind string, id uuid.UUID) ([]logRow, error) {
	operation := vault.OperationReact
	if kind == "proxy" {
		operation = vault.OperationUse
	}
	entries, _, err := q.readLog(c, vault.ListLogsParams{EntityType: kind, EntityID: id.String(), Operation: operation}, true, uuid.UUID{})
	if err != nil {
		return nil, err
	}
	failed := map[uuid.UUID]int{} // failures whose start was not seen, by actor
	entries = slices.DeleteFunc(entries, func(e vault.LogEntry) bool {
		switch {
		case failure.MatchString(e.Message):
			failed[e.ActorID]++
			return false
		case !strings.HasSuffix(e.Message, " invoked"):
			return true // test runs and callbacks
		case failed[e.ActorID] > 0:
			failed[e.ActorID]--
			return true
		}
		return false
	})
	return q.logRows(c, q.in(), entries[:min(len(entries), 20)]), nil
}

// programOf builds the part that the pages of reactors and proxies share.
func (q *request) programOf(c *vault.Owner, kind string, id uuid.UUID, name string, configuration map[string]string, application uuid.UUID) (*programBody, error) {
	b := &programBody{Kind: strings.TrimSuffix(named[kind].path, "/"), ID: id, Name: name, Configuration: slices.Sorted(maps.Keys(configuration))}
	system, err := q.vault.Info(q.r.Context())
	if err != nil {
		return nil, err
	}
	b.CanRun = system.Config.Runtime != nil
	if application != (uuid.UUID{}) {
		b.Application = q.namedRef(c, q.in(), "application", application)
	}
	if b.Runs, err = q.recentRuns(c, kind, id); err != nil {
		return nil, err
	}
	dead, err := c.ListJobs(q.r.Context(), vault.ListJobsParams{Dead: true, Size: 100})
	b.Dead = slices.DeleteFunc(dead, func(j vault.JobInfo) bool { return j.ReactorID != id })
	return b, err
}

const reactorArgs = "{}"

// reactorBody reads a reactor.
func (q *request) reactorBody(c *vault.Owner) (*programBody, error) {
	r, err := c.GetReactor(q.r.Context(), q.id("id"))
	if err != nil {
		return nil, err
	}
	b, err := q.programOf(c, "reactor", r.ID, r.Name, r.Configuration, r.ApplicationID)
	if err != nil {
		return nil, err
	}
	b.Sources = []source{{Title: "Code", Lines: linesOf(r.Code, lastBad(b.Runs)), Args: reactorArgs}}
	return b, nil
}

// Default arguments of a test run.
const (
	requestArgs  = "{\n  \"method\": \"POST\",\n  \"path\": \"\",\n  \"query\": \"\",\n  \"headers\": {},\n  \"body\": {}\n}"
	responseArgs = "{\n  \"headers\": {},\n  \"body\": {}\n}"
)

// proxyBody reads a proxy.
func (q *request) proxyBody(c *vault.Owner) (*programBody, error) {
	x, err := c.GetProxy(q.r.Context(), q.id("id"))
	if err != nil {
		return nil, err
	}
	b, err := q.programOf(c, "proxy", x.ID, x.Name, x.Configuration, x.ApplicationID)
	if err != nil {
		return nil, err
	}
	b.Destination, b.RequireAuth = plainURL(x.DestinationURL), x.RequireAuth
	if x.RequestTransform != nil {
		b.Sources = append(b.Sources, source{Title: "Request transform", Part: "request", Lines: linesOf(x.RequestTransform.Code, 0), Args: requestArgs})
	}
	if x.ResponseTransform != nil {
		b.Sources = append(b.Sources, source{Title: "Response transform", Part: "response", Lines: linesOf(x.ResponseTransform.Code, 0), Args: responseArgs})
	}
	return b, nil
}

// plainURL returns a URL without the parts that may be secret.
func plainURL(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// program returns the page of a reactor or a proxy.
func program(read func(*request, *vault.Owner) (*programBody, error)) func(*request, *vault.Owner, *vault.Tenant) error {
	return func(q *request, c *vault.Owner, t *vault.Tenant) error {
		b, err := read(q, c)
		if err != nil {
			return err
		}
		return q.show(http.StatusOK, "program", q.view("code", b.Name, t, b))
	}
}

func (q *request) tryReactor(c *vault.Owner, t *vault.Tenant) error {
	return q.try(c, t, (*request).reactorBody, vault.TestRunParams{ReactorID: q.id("id")})
}

func (q *request) tryProxy(c *vault.Owner, t *vault.Tenant) error {
	return q.try(c, t, (*request).proxyBody, vault.TestRunParams{ProxyID: q.id("id"), Response: q.r.PostForm.Get("part") == "response"})
}

// try makes a test run and shows its result on the page.
func (q *request) try(c *vault.Owner, t *vault.Tenant, read func(*request, *vault.Owner) (*programBody, error), p vault.TestRunParams) error {
	b, err := read(q, c)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(b.Sources, func(s source) bool { return s.Part == q.r.PostForm.Get("part") })
	if i < 0 {
		return vault.ErrNotFound
	}
	s := &b.Sources[i]
	s.Args = q.r.PostForm.Get("args")
	p.Args = vault.JSON(s.Args)
	trial, err := c.TestRun(q.r.Context(), p)
	status := http.StatusOK
	switch bad := problemsOf(err); {
	case bad != nil:
		s.Problem, status = "The arguments "+strings.Join(slices.Concat(slices.Collect(maps.Values(bad))...), "; ")+".", http.StatusBadRequest
	case errors.Is(err, vault.ErrNoRuntime):
		s.Problem, status = "The vault has no runtime for code.", http.StatusBadRequest
	case err != nil:
		return err
	default:
		s.Trial = trial
	}
	for i := range s.Lines {
		s.Lines[i].Bad = s.Trial != nil && s.Trial.Err != nil && s.Trial.Err.Line() == s.Lines[i].N
	}
	return q.show(status, "program", q.view("code", b.Name, t, b))
}

func indented(raw vault.JSON) string {
	var out bytes.Buffer
	if raw == nil || json.Indent(&out, raw, "", "  ") != nil {
		return string(raw)
	}
	return out.String()
}
