package httpserver

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // the driver of the databases in memory

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/core"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/sqlite"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// layer is a part of the work for a request, on top of the layers before it.
type layer struct {
	name string
	// route handles the request, with the layers so far.
	route route
	// over is the storage of the layer.
	over func(vault.Storage, *sent) vault.Storage
	// connected sends the request over a connection.
	connected bool
	// most is the maximum number of allocations, including the layers before.
	most float64
}

// sent is a request that callers send.
type sent struct {
	method, id, body string
	want             int
	token            storage.Token // the token with the id
}

// layered is a call of the API, in layers.
type layered struct {
	sent
	layers []layer
}

// calls are a create of a card and a read of its plaintext. The bounds on allocations
// leave room for pools that lose items in every one of the calls.
func calls() map[string]layered {
	nothing := func(op operation) operation {
		op.run = func(context.Context, *input) (any, error) { return nil, nil }
		return op
	}
	unencoded := func(op operation) operation {
		run := op.run
		op.run = func(ctx context.Context, in *input) (any, error) {
			_, err := run(ctx, in)
			return nil, err
		}
		op.created = false
		return op
	}
	create := query((*vault.Client).CreateToken)
	read := read(tokenID, (*vault.Client).GetToken)
	return map[string]layered{
		"create": {sent{method: "POST", body: card, want: http.StatusCreated}, []layer{
			{"handler", route{operation: operation{open: true, run: nothing(create).run}}, free, false, 18},
			{"authentication", route{operation: operation{run: nothing(create).run}}, free, false, 21},
			{"permission", route{verb: &core.VerbCreateToken, operation: operation{run: nothing(create).run}}, free, false, 22},
			{"body", route{verb: &core.VerbCreateToken, operation: nothing(create)}, free, false, 25},
			{"core", route{verb: &core.VerbCreateToken, operation: unencoded(create)}, free, false, 69},
			{"encoding", route{verb: &core.VerbCreateToken, operation: created(create)}, free, false, 73},
			{"storage", route{verb: &core.VerbCreateToken, operation: created(create)}, unlogged, false, 123},
			{"log", route{verb: &core.VerbCreateToken, operation: created(create)}, whole, false, 158},
			{"connection", route{verb: &core.VerbCreateToken, operation: created(create)}, whole, true, 185},
		}},
		"read": {sent{method: "GET", want: http.StatusOK}, []layer{
			{"handler", route{operation: operation{open: true, run: nothing(read).run}}, free, false, 18},
			{"authentication", route{operation: operation{run: nothing(read).run}}, free, false, 21},
			{"permission", route{verb: &core.VerbGetToken, operation: operation{run: nothing(read).run}}, free, false, 22},
			{"core", route{verb: &core.VerbGetToken, operation: unencoded(read)}, free, false, 44},
			{"encoding", route{verb: &core.VerbGetToken, operation: read}, free, false, 46},
			{"storage", route{verb: &core.VerbGetToken, operation: read}, unlogged, false, 80},
			{"log", route{verb: &core.VerbGetToken, operation: read}, whole, false, 122},
			{"connection", route{verb: &core.VerbGetToken, operation: read}, whole, true, 145},
		}},
	}
}

// free is a storage whose writes and reads of tokens cost nothing.
func free(s vault.Storage, about *sent) vault.Storage { return &freeStorage{s, about} }

type freeStorage struct {
	vault.Storage
	about *sent
}

func (s *freeStorage) Write(ctx context.Context, c *storage.Change) error {
	if s.about.id == "" {
		return s.Storage.Write(ctx, c) // the vault is set up
	}
	return nil
}

func (s *freeStorage) Tokens(context.Context, storage.ID, []string) ([]storage.Token, error) {
	return []storage.Token{s.about.token}, nil
}

// unlogged is a storage that writes no log.
func unlogged(s vault.Storage, about *sent) vault.Storage { return &unloggedStorage{s, about} }

type unloggedStorage struct {
	vault.Storage
	about *sent
}

func (s *unloggedStorage) Write(ctx context.Context, c *storage.Change) error {
	if s.about.id == "" {
		return s.Storage.Write(ctx, c) // the vault is set up
	}
	if len(c.InsertTokens) == 0 {
		return nil // the entry of a read
	}
	without := *c
	without.Logs = nil
	return s.Storage.Write(ctx, &without)
}

func whole(s vault.Storage, _ *sent) vault.Storage { return s }

// caller returns a function that sends the request of a call to a layer.
func (c *layered) caller(tb testing.TB, l *layer) func() {
	tb.Helper()
	s := c.sent
	store := must.Get(sqlite.Open(context.Background(), ":memory:"))(tb)
	v := vaulttest.OpenStorage(tb, l.over(store, &s), nil)
	tok := must.Get(v.Private.CreateToken(context.Background(), vault.TokenParams{Type: vault.TypeCard, Data: vault.JSON(`{"number":"4242424242424242"}`)}))(tb)
	s.token = must.Get(store.Tokens(context.Background(), storage.ID(v.Acme.ID), []string{tok.ID}))(tb)[0]
	s.id = tok.ID

	h, _ := Handler(v.Vault, nil).(*handler)
	l.route.method, l.route.path, l.route.status = s.method, "/layer/{id}", s.want
	h.mux.Handle(l.route.path, &endpoint{handler: h, name: l.route.path, routes: map[string]*route{s.method: &l.route}})
	at := path.Join("/layer", s.id)
	if l.connected {
		return overConnection(tb, h, at, v.PrivateKey, &s)
	}
	header := http.Header{"Svc-Api-Key": {v.PrivateKey}, "Content-Type": {"application/json"}}
	return func() {
		r := &http.Request{
			Method: s.method, URL: &url.URL{Path: at}, RequestURI: at, Header: header,
			Body: io.NopCloser(strings.NewReader(s.body)), ContentLength: int64(len(s.body)),
		}
		w := &sink{header: http.Header{}}
		h.ServeHTTP(w, r)
		if w.status != s.want {
			tb.Fatalf("status %d", w.status)
		}
	}
}

// overConnection returns a function that sends a request over a connection and reads the
// response. The function itself allocates nothing.
func overConnection(tb testing.TB, h http.Handler, at, key string, s *sent) func() {
	tb.Helper()
	server := httptest.NewServer(h)
	tb.Cleanup(server.Close)
	conn := must.Get(net.Dial("tcp", server.Listener.Addr().String()))(tb)
	tb.Cleanup(func() { _ = conn.Close() })
	request := fmt.Appendf(nil, "%s %s HTTP/1.1\r\nHost: vault\r\nSvc-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		s.method, at, key, len(s.body), s.body)
	status := fmt.Appendf(nil, "HTTP/1.1 %d ", s.want)
	end, response := []byte("}"), make([]byte, 1<<14)
	return func() {
		_, err := conn.Write(request)
		for n := 0; err == nil; {
			var more int
			more, err = conn.Read(response[n:])
			n += more
			if err == nil && bytes.HasSuffix(response[:n], end) {
				break // an object is the whole body
			}
		}
		if err != nil || !bytes.HasPrefix(response, status) {
			tb.Fatalf("%v, %.20s", err, response)
		}
	}
}

// sink is a ResponseWriter that keeps only the status.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) Write(p []byte) (int, error) { return len(p), nil }
func (s *sink) WriteHeader(status int)      { s.status = status }

// SetReadDeadline exists because the ResponseWriter of net/http has it too.
func (s *sink) SetReadDeadline(time.Time) error { return nil }

// BenchmarkLayers measures a create and a read with more and more of their layers, on
// SQLite in memory: from the parsed request to the written response, and at last with
// the server and the connection of net/http.
func BenchmarkLayers(b *testing.B) {
	for name, call := range calls() {
		for _, l := range call.layers {
			b.Run(name+"/"+l.name, func(b *testing.B) {
				send := call.caller(b, &l)
				b.ReportAllocs()
				for b.Loop() {
					send()
				}
			})
		}
	}
}

// layerRow is a row of the table in performance.md: a layer, and the allocations of a
// create and of a read up to it.
var layerRow = regexp.MustCompile(`(?m)^\| ([a-z]+) \| [^|]+ \| ([\d–]+) / [^|]+ \| ([\d–]+) / [^|]+ \|$`)

// documentedLayers returns the allocations in performance.md by call and layer.
func documentedLayers(t *testing.T) map[string]float64 {
	t.Helper()
	documented := map[string]float64{}
	for _, row := range layerRow.FindAllStringSubmatch(string(must.Get(os.ReadFile("../docs/performance.md"))(t)), -1) {
		for i, call := range []string{"create", "read"} {
			documented[call+"/"+row[1]], _ = strconv.ParseFloat(row[2+i], 64)
		}
	}
	return documented
}

// TestLayersTakeFewAllocations holds the allocations of each layer, and compares them
// with performance.md.
func TestLayersTakeFewAllocations(t *testing.T) { //nolint:paralleltest // other tests would allocate
	const room = 5 // for pools that lose items
	documented := documentedLayers(t)
	for name, call := range calls() {
		var all []float64
		for _, l := range call.layers {
			n := fewestAllocations(call.caller(t, &l))
			if all = append(all, n); n > l.most {
				t.Errorf("a %s up to %s takes %.0f allocations, want at most %.0f", name, l.name, n, l.most)
			}
			if says := documented[name+"/"+l.name]; math.Abs(n-says) > room {
				t.Errorf("a %s up to %s takes %.0f allocations, performance.md says %.0f", name, l.name, n, says)
			}
		}
		t.Logf("a %s: %v", name, all)
		if !slices.IsSorted(all) {
			t.Errorf("the layers of a %s do not add to each other: %v", name, all)
		}
	}
}

// fewestAllocations returns the fewest allocations of a single call. Under the race
// detector a pool loses a quarter of its items at random, so an average depends on luck.
func fewestAllocations(call func()) float64 {
	fewest := testing.AllocsPerRun(1, call)
	for range 400 {
		fewest = min(fewest, testing.AllocsPerRun(1, call))
	}
	return fewest
}
