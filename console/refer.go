package console

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/bounded"
)

// ref is a reference on a page: its text, the full text behind it, and a link.
type ref struct {
	Text string
	Full string // title, and the text that the copy button copies
	Href string // empty without a page
	ID   bool   // Text is an id, not a name
}

// Lengths of the ids that are shown in full, and of the two ends of other ids, in
// characters.
const (
	wholeID   = 24
	firstOfID = 8
	lastOfID  = 6
)

// short cuts the middle out of a long id. The full id is in a title beside it.
func short(id string) string {
	if utf8.RuneCountInString(id) <= wholeID {
		return id
	}
	text := []rune(id)
	return string(text[:firstOfID]) + "…" + string(text[len(text)-lastOfID:])
}

// idRef refers to something by its id.
func idRef(id, href string) ref { return ref{Text: short(id), Full: id, Href: href, ID: true} }

// names caches the names of applications, reactors and proxies. Each lookup is a read in the audit log,
// so a page does not repeat it within nameAge.
type names struct {
	mu  sync.Mutex
	all bounded.Map[nameKey, knownName]
}

type nameKey struct {
	tenant, entity uuid.UUID
	kind           string
}

type knownName struct {
	name string // empty if the entity does not exist
	at   time.Time
}

const (
	nameAge  = time.Minute
	maxNames = 10_000
)

// get returns a cached name that is not too old.
func (n *names) get(k nameKey) (name string, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known, ok := n.all[k]
	return known.name, ok && time.Since(known.at) < nameAge
}

func (n *names) set(k nameKey, name string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all.Put(maxNames, k, knownName{name, time.Now()})
}

// forget removes a name from the cache.
func (n *names) forget(k nameKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.all, k)
}

// named are the kinds of entities that have a name and a page, by entity type.
var named = map[string]struct {
	path string // of the pages
	name func(context.Context, *vault.Owner, uuid.UUID) (string, error)
}{
	"application": {"applications/", nameOf((*vault.Client).GetApplication, func(a *vault.Application) string { return a.Name })},
	"reactor":     {"reactors/", nameOf((*vault.Client).GetReactor, func(r *vault.Reactor) string { return r.Name })},
	"proxy":       {"proxies/", nameOf((*vault.Client).GetProxy, func(p *vault.Proxy) string { return p.Name })},
}

func nameOf[T any](get func(*vault.Client, context.Context, uuid.UUID) (*T, error), name func(*T) string) func(context.Context, *vault.Owner, uuid.UUID) (string, error) {
	return func(ctx context.Context, c *vault.Owner, id uuid.UUID) (string, error) {
		item, err := get(c.Client, ctx, id)
		if err != nil {
			return "", err
		}
		return name(item), nil
	}
}

// namedRef refers to an entity by its name, or by its id if it was deleted. in is
// the path of the tenant's pages.
func (q *request) namedRef(c *vault.Owner, in, kind string, id uuid.UUID) ref {
	k := nameKey{c.TenantID(), id, kind}
	name, ok := q.names.get(k)
	if !ok {
		var err error
		if name, err = named[kind].name(q.r.Context(), c, id); err != nil && !errors.Is(err, vault.ErrNotFound) {
			return idRef(id.String(), "")
		}
		q.names.set(k, name)
	}
	if name == "" {
		return idRef(id.String(), "")
	}
	return ref{Text: name, Full: id.String(), Href: in + named[kind].path + id.String()}
}

// actorRef refers to an application, or to the tenant itself.
func (q *request) actorRef(c *vault.Owner, in string, id uuid.UUID) ref {
	switch id {
	case uuid.UUID{}:
		return ref{}
	case c.TenantID():
		return ref{Text: "Tenant", Full: id.String(), Href: strings.TrimSuffix(in, "/")}
	default:
		return q.namedRef(c, in, "application", id)
	}
}

// mask formats the data of a masked token for people: fields with their values,
// without the quotes and braces of JSON. A long text is cut off.
func mask(data vault.JSON) string {
	f := flattener{from: json.NewDecoder(bytes.NewReader(data))}
	f.from.UseNumber()
	err := f.value("")
	text := f.out.String()
	switch {
	case errors.Is(err, errLong), len(text) > maxMask:
		letters := []rune(text)
		return string(letters[:min(len(letters), maxMask)]) + "…"
	case err != nil, text == "":
		return string(data)
	default:
		return text
	}
}

// briefMask formats a mask for a table. A card shows its number and date.
func briefMask(t *vault.Token) string {
	var card struct {
		Number string `json:"number"`
		Month  int    `json:"expiration_month"`
		Year   int    `json:"expiration_year"`
	}
	if t.Type != vault.TypeCard || json.Unmarshal(t.Data, &card) != nil || card.Number == "" {
		return mask(t.Data)
	}
	if card.Month == 0 {
		return card.Number
	}
	return fmt.Sprintf("%s, %02d/%d", card.Number, card.Month, card.Year)
}

// maxMask bounds the bytes of a mask on a page.
const maxMask = 2000

var errLong = errors.New("console: the mask is long")

// flattener writes the values of a JSON text, each after its path.
type flattener struct {
	from *json.Decoder
	out  strings.Builder
}

func (f *flattener) value(path string) error {
	if f.out.Len()+len(path) > maxMask {
		return errLong
	}
	token, err := f.from.Token()
	if err != nil {
		return err
	}
	opens, ok := token.(json.Delim)
	if !ok {
		f.write(path, token)
		return nil
	}
	for n := 0; f.from.More(); n++ {
		below := fmt.Sprintf("%s[%d]", path, n)
		if opens == '{' {
			name, err := f.from.Token()
			if err != nil {
				return err
			}
			below = strings.TrimPrefix(fmt.Sprint(path, ".", name), ".")
		}
		if err := f.value(below); err != nil {
			return err
		}
	}
	_, err = f.from.Token()
	return err
}

func (f *flattener) write(path string, value json.Token) {
	if f.out.Len() > 0 {
		f.out.WriteString(", ")
	}
	if path != "" {
		f.out.WriteString(path + ": ")
	}
	if value == nil {
		value = "null"
	}
	fmt.Fprint(&f.out, value)
}
