package console

import (
	"bytes"
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/pace"
)

// overview is the first page.
type overview struct {
	Span    string
	Plots   []plot
	Partial bool // the log had more entries than were counted
	At      time.Time

	vault.Totals
	KeyAges      []keyAge
	Database     time.Duration // response time
	DatabaseDown bool
	Evidence     string // what is wrong with the evidence, or empty
}

// keyAge counts tenants by the age of the key that seals their data.
type keyAge struct {
	Name    string
	Tenants int
	most    time.Duration
}

// mostTenants bounds the number of tenants in the figures of the overview.
const mostTenants = 200

// overview returns the page for a span of time.
func (h *handler) overview(ctx context.Context, s span) (*overview, error) {
	known, err := h.database.look(ctx, h)
	if err != nil {
		return nil, err
	}
	o := *known
	o.Span, o.At = s.name, time.Now().UTC()
	if evidence, err := h.vault.EvidenceStatus(); err == nil {
		o.Evidence = evidence.Wrong()
	}
	if o.DatabaseDown {
		return &o, nil
	}
	f := &figures{Points: make([]point, s.points)}
	if h.opts.Recorder != nil {
		f = h.opts.Recorder.figures(s)
	}
	if o.Partial, err = h.tally.fill(ctx, f, s); err != nil {
		return nil, err
	}
	o.Plots = plotsOf(f)
	if h.opts.Recorder == nil {
		o.Plots = o.Plots[:2] // the rest is not in the log
	}
	return &o, nil
}

// databaseEvery is how often the database is queried. Figures of the process are
// newer.
const databaseEvery = 10 * time.Second

// databaseFigures are the figures of the overview that come from the database.
type databaseFigures struct {
	mu   sync.Mutex // so that concurrent pages query the database once
	last *overview
	at   time.Time
}

// look returns figures that are at most databaseEvery old.
func (d *databaseFigures) look(ctx context.Context, h *handler) (*overview, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil && time.Since(d.at) < databaseEvery {
		return d.last, nil
	}
	o, err := h.lookAtDatabase(ctx)
	if err == nil {
		d.last, d.at = o, time.Now()
	}
	return o, err
}

// lookAtDatabase reads counters but no tokens.
func (h *handler) lookAtDatabase(ctx context.Context) (*overview, error) {
	o := &overview{}
	began := time.Now()
	if err := h.vault.Ping(ctx); err != nil {
		o.DatabaseDown = true
		return o, nil //nolint:nilerr // the page shows that the database is down
	}
	o.Database = time.Since(began)
	sum, err := h.vault.Totals(ctx, mostTenants)
	if err != nil {
		return nil, err
	}
	o.Totals = *sum
	o.KeyAges = agesOf(h.vault.Now(), sum.SealedSince)
	return o, nil
}

// keyAges are the age groups, youngest first.
var keyAges = []keyAge{
	{Name: "up to 90 days", most: 90 * 24 * time.Hour},
	{Name: "up to a year", most: 365 * 24 * time.Hour},
	{Name: "up to 2 years", most: 2 * 365 * 24 * time.Hour},
	{Name: "older than 2 years", most: 1<<63 - 1},
}

// agesOf counts tenants by when the key that seals their data was made.
func agesOf(now time.Time, made []time.Time) []keyAge {
	out := slices.Clone(keyAges)
	for _, at := range made {
		out[slices.IndexFunc(out, func(a keyAge) bool { return now.Sub(at) <= a.most })].Tenants++
	}
	return slices.DeleteFunc(out, func(a keyAge) bool { return a.Tenants == 0 })
}

// span returns the span that the URL names.
func (q *request) span() span {
	if q.r.URL.Query().Get("span") == lastDay.name {
		return lastDay
	}
	return lastHour
}

// overview shows the first page.
func (q *request) overview() error {
	o, err := q.handler.overview(q.r.Context(), q.span())
	if err != nil {
		return err
	}
	return q.show(http.StatusOK, "overview", q.view("overview", "Overview", nil, o))
}

// followOverview sends the overview of a span as HTML, every Options.Refresh.
func (h *handler) followOverview(ctx context.Context, s span, send func([]byte)) {
	pace.Every(ctx, h.opts.Refresh, func() { h.sendOverview(ctx, s, send) })
}

// sendOverview sends the overview once. After an error, the page keeps its old
// figures until the next time.
func (h *handler) sendOverview(ctx context.Context, s span, send func([]byte)) {
	ctx, cancel := context.WithTimeout(ctx, databaseEvery)
	defer cancel()
	var html bytes.Buffer
	if o, err := h.overview(ctx, s); err == nil && pages["overview"].ExecuteTemplate(&html, "live", o) == nil {
		send(html.Bytes())
	}
}

// overviewEvents keeps the first page up to date.
func (q *request) overviewEvents() error {
	return follow(q, &q.live, q.span(), "overview", func(html []byte) []byte { return html })
}
