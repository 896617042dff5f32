package httpserver

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// pair is a parameter of a query.
type pair struct{ name, value string }

// params are the parameters of a query, in the order in which they were sent.
// They record which names an operation reads, so that all other names can be
// rejected.
type params struct {
	sent  []pair
	known []string
}

// maxPairs is the maximum number of parameters of a query.
const maxPairs = 2500

// parseQuery reads a query.
func parseQuery(raw string) (*params, error) {
	all := &params{}
	if raw == "" {
		return all, nil
	}
	if strings.Count(raw, "&") >= maxPairs {
		return nil, invalid("", "The query string must have at most %d parameters.", maxPairs)
	}
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, errName := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(value)
		if errName != nil || errValue != nil {
			return nil, invalid("", "The query string has an invalid %% escape.")
		}
		if name != "" {
			all.sent = append(all.sent, pair{name, value})
		}
	}
	return all, nil
}

// first returns the first value of a parameter, and whether the query has it.
func (p *params) first(name string) (string, bool) {
	p.known = append(p.known, name)
	for _, x := range p.sent {
		if x.name == name {
			return x.value, true
		}
	}
	return "", false
}

// text returns the first value of a parameter, or "".
func (p *params) text(name string) string {
	value, _ := p.first(name)
	return value
}

// all returns every value of a parameter that can be repeated.
func (p *params) all(name string) []string {
	p.known = append(p.known, name)
	var values []string
	for _, x := range p.sent {
		if x.name == name {
			values = append(values, x.value)
		}
	}
	return values
}

// refuseOthers rejects the parameters that the operation does not read,
// because a misspelled filter must not find everything.
func (p *params) refuseOthers() error {
	bad := map[string][]string{}
	for _, x := range p.sent {
		if !slices.ContainsFunc(p.known, func(known string) bool { return isParameter(x.name, known) }) {
			bad[x.name] = []string{"is not a parameter of this list, which has " + cmp.Or(strings.Join(p.known, ", "), "none")}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return &vault.InvalidError{Fields: bad}
}

// anyKey ends the name of a parameter with a key, such as metadata.<key>.
const anyKey = ".<key>"

// isParameter reports whether a parameter has the given known name.
func isParameter(name, known string) bool {
	prefix, isMap := strings.CutSuffix(known, anyKey)
	if !isMap {
		return name == known
	}
	rest, ok := strings.CutPrefix(name, prefix)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[' && rest[len(rest)-1] == ']')
}

// page reads page and size.
func (p *params) page() vault.PageParams {
	return vault.PageParams{Page: p.count("page"), Size: p.count("size")}
}

// count reads a number. For an invalid number it returns -1, which the vault
// rejects.
func (p *params) count(name string) int {
	value, given := p.first(name)
	if !given {
		return 0
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n == 0 {
		return -1
	}
	return int(n)
}

// ids reads the parameter id as UUIDs.
func (p *params) ids() ([]uuid.UUID, error) {
	var ids []uuid.UUID
	for _, text := range p.all("id") {
		id, ok := parseUUID(text)
		if !ok {
			return nil, invalid("id", "must be a UUID")
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func tokenFilter(p *params) (vault.ListTokensParams, error) {
	f, err := tokensBy(p)
	f.PageParams = p.page()
	return f, err
}

// tokenCursor reads the filters for tokens and a position in the list.
func tokenCursor(p *params) (cursorFilter, error) {
	f, err := tokensBy(p)
	f.Size = p.count("size")
	return cursorFilter{f, p.text("start")}, err
}

// cursorFilter holds the parameters of a list of tokens by cursor.
type cursorFilter struct {
	vault.ListTokensParams
	after string
}

// tokensBy reads the filters for tokens.
func tokensBy(p *params) (vault.ListTokensParams, error) {
	f := vault.ListTokensParams{IDs: p.all("id")}
	p.known = append(p.known, transformParameter) // see showsTransform
	for _, t := range p.all("type") {
		f.Types = append(f.Types, vault.TokenType(t))
	}
	var err error
	f.Metadata, err = p.metadata()
	return f, err
}

// metadata reads the metadata filters in their three forms: metadata.k=v,
// metadata[k]=v and metadata={"k":"v"}. If a key is repeated, the first one
// counts.
func (p *params) metadata() (map[string]string, error) {
	p.known = append(p.known, "metadata"+anyKey)
	filters := map[string]string{}
	add := func(key, value string) {
		if _, known := filters[key]; !known {
			filters[key] = value
		}
	}
	for _, x := range p.sent {
		rest, ok := strings.CutPrefix(x.name, "metadata")
		switch {
		case !ok:
		case rest == "":
			if !eachMember(x.value, add) {
				return nil, invalid("metadata", "must be a JSON object of strings")
			}
		case strings.HasPrefix(rest, "."):
			add(rest[1:], x.value)
		case strings.HasPrefix(rest, "[") && strings.HasSuffix(rest, "]"):
			add(rest[1:len(rest)-1], x.value)
		default:
			// another parameter
		}
	}
	return filters, nil
}

// eachMember calls add for each member of a JSON object of strings, in order.
// It reports whether the text is such an object.
func eachMember(text string, add func(key, value string)) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return false
	}
	for dec.More() {
		key, errKey := dec.Token()
		value, errValue := dec.Token()
		k, okKey := key.(string)
		v, okValue := value.(string)
		if errKey != nil || errValue != nil || !okKey || !okValue {
			return false
		}
		add(k, v)
	}
	if _, err := dec.Token(); err != nil {
		return false
	}
	return strings.TrimSpace(text[dec.InputOffset():]) == ""
}

func logFilter(p *params) (vault.ListLogsParams, error) {
	f := vault.ListLogsParams{
		EntityType: p.text("entity_type"), EntityID: p.text("entity_id"),
		Operation: vault.LogOperation(p.text("operation")), ActorType: vault.ActorType(p.text("actor_type")),
	}
	var errs [3]error
	f.StartDate, errs[0] = p.date("start_date")
	f.EndDate, errs[1] = p.date("end_date")
	f.ActorID, errs[2] = p.id("actor_id")
	f.PageParams = p.page()
	return f, cmp.Or(errs[:]...)
}

// id reads a parameter as a UUID. An absent or empty parameter is the zero
// UUID.
func (p *params) id(name string) (uuid.UUID, error) {
	text := p.text(name)
	id, ok := parseUUID(text)
	if text != "" && !ok {
		return id, invalid(name, "must be a UUID")
	}
	return id, nil
}

// dateLayouts are the ISO 8601 forms that dates in queries may have. Without
// an offset they are in UTC. Each form allows a fraction of a second.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly,
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405", "20060102",
}

// date reads a date or a date-time. An absent or empty parameter is the zero
// time.
func (p *params) date(name string) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	// The plus of an offset arrives as a space if it was not escaped.
	text = strings.ToUpper(strings.ReplaceAll(text, " ", "+"))
	for _, layout := range dateLayouts {
		t, err := time.Parse(layout, text)
		if err != nil {
			continue
		}
		if t.IsZero() {
			t = t.Add(time.Microsecond) // the zero time would mean no date
		}
		return t.UTC(), nil
	}
	return time.Time{}, invalid(name, "must be an ISO 8601 date or date-time")
}

func applicationFilter(p *params) (vault.ListApplicationsParams, error) {
	of, err := codeFilter(p)
	f := vault.ListApplicationsParams{IDs: of.IDs, Name: of.Name, PageParams: of.PageParams}
	for _, t := range p.all("type") {
		f.Types = append(f.Types, vault.ApplicationType(t))
	}
	return f, err
}

func codeFilter(p *params) (vault.ListParams, error) {
	f := vault.ListParams{Name: p.text("name")}
	var err error
	f.IDs, err = p.ids()
	f.PageParams = p.page()
	return f, err
}
