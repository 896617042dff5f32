package httpserver

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
)

// pair is a parameter of a query.
type pair struct{ name, value string }

// pairs are the parameters of a query in the order in which they were sent.
type pairs []pair

// maxPairs bounds the parameters of a query.
const maxPairs = 2500

// parseQuery reads a query.
func parseQuery(raw string) (pairs, error) {
	if raw == "" {
		return nil, nil
	}
	if strings.Count(raw, "&") >= maxPairs {
		return nil, invalid("", "The query string must have at most %d parameters.", maxPairs)
	}
	var all pairs
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		name, errName := url.QueryUnescape(name)
		value, errValue := url.QueryUnescape(value)
		if errName != nil || errValue != nil {
			return nil, invalid("", "The query string has an invalid %% escape.")
		}
		if name != "" {
			all = append(all, pair{name, value})
		}
	}
	return all, nil
}

// first returns the first value of a parameter, and whether there is one.
func (p pairs) first(name string) (string, bool) {
	for _, x := range p {
		if x.name == name {
			return x.value, true
		}
	}
	return "", false
}

// text returns the first value of a parameter, or "".
func (p pairs) text(name string) string {
	value, _ := p.first(name)
	return value
}

// all returns every value of a parameter that can be repeated.
func (p pairs) all(name string) []string {
	var values []string
	for _, x := range p {
		if x.name == name {
			values = append(values, x.value)
		}
	}
	return values
}

// page reads page and size. A value that is not a page number is passed on as
// one that the vault rejects.
func (p pairs) page() vault.PageParams {
	number := func(name string) int {
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
	return vault.PageParams{Page: number("page"), Size: number("size")}
}

// ids reads the parameter id as UUIDs.
func (p pairs) ids() ([]uuid.UUID, error) {
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

func tokenFilter(p pairs) (vault.ListTokensParams, error) {
	f := vault.ListTokensParams{IDs: p.all("id")}
	for _, t := range p.all("type") {
		f.Types = append(f.Types, vault.TokenType(t))
	}
	var err error
	if f.Metadata, err = p.metadata(); err != nil {
		return f, err
	}
	f.PageParams = p.page()
	return f, nil
}

// metadata reads the metadata filters in their three forms: metadata.k=v,
// metadata[k]=v and metadata={"k":"v"}. If a key is repeated, the first one
// counts.
func (p pairs) metadata() (map[string]string, error) {
	filters := map[string]string{}
	add := func(key, value string) {
		if _, known := filters[key]; !known {
			filters[key] = value
		}
	}
	for _, x := range p {
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
			// some other parameter
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

func logFilter(p pairs) (vault.ListLogsParams, error) {
	f := vault.ListLogsParams{EntityType: p.text("entity_type"), EntityID: p.text("entity_id")}
	var err error
	if f.StartDate, err = p.date("start_date"); err != nil {
		return f, err
	}
	if f.EndDate, err = p.date("end_date"); err != nil {
		return f, err
	}
	f.PageParams = p.page()
	return f, nil
}

// dateLayouts are the forms of ISO 8601 that dates in queries may have. Without
// an offset they are in UTC; a fraction of a second is allowed in all.
var dateLayouts = []string{
	time.RFC3339, "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07", "2006-01-02T15:04:05",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", time.DateOnly,
	"20060102T150405Z0700", "20060102T150405Z07", "20060102T150405", "20060102",
}

// date reads a date or a date-time; zero when it is absent or empty.
func (p pairs) date(name string) (time.Time, error) {
	text := p.text(name)
	if text == "" {
		return time.Time{}, nil
	}
	// An offset's plus that was not escaped arrives as a space.
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

func applicationFilter(p pairs) (vault.ListApplicationsParams, error) {
	var f vault.ListApplicationsParams
	var err error
	if f.IDs, err = p.ids(); err != nil {
		return f, err
	}
	f.PageParams = p.page()
	return f, nil
}

func reactorFilter(p pairs) (vault.ListReactorsParams, error) {
	f := vault.ListReactorsParams{Name: p.text("name")}
	var err error
	if f.IDs, err = p.ids(); err != nil {
		return f, err
	}
	f.PageParams = p.page()
	return f, nil
}

func proxyFilter(p pairs) (vault.ListProxiesParams, error) {
	f, err := reactorFilter(p)
	return vault.ListProxiesParams(f), err
}
