package sqlite

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/httpserver"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/storage"
)

// shop is an application that uses a vault through REST.
type shop struct {
	store   *Store
	handler http.Handler
	key     string
}

func openShop(t *testing.T) *shop {
	t.Helper()
	s := &shop{store: open(t, newPath(t))}
	v := must.Get(vault.Open(t.Context(), s.store, vault.NewKey(), nil))(t)
	t.Cleanup(func() { v.Close() })
	tenant := must.Get(v.CreateTenant(t.Context(), "Acme"))(t)
	app := must.Get(v.Tenant(tenant.ID).CreateApplication(t.Context(), vault.ApplicationParams{
		Name: "Shop", Type: vault.ApplicationPrivate,
		Permissions: []vault.Permission{"token:create", "token:read", "token:update", "token:delete"},
	}))(t)
	s.handler, s.key = httpserver.Handler(v, nil), app.Key
	return s
}

func (s *shop) send(method, path, body string) *httptest.ResponseRecorder {
	r, w := httptest.NewRequest(method, path, strings.NewReader(body)), httptest.NewRecorder()
	r.Header.Set("SVC-API-KEY", s.key)
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	s.handler.ServeHTTP(w, r)
	return w
}

func (s *shop) create(id string) int {
	return s.send("POST", "/tokens", fmt.Sprintf(`{"id":%q,"type":"token","data":"value"}`, id)).Code
}

// setReadOnly makes the writer's file read-only, or writable again. The file
// system cannot be made read-only for that, because it has open files.
func (s *shop) setReadOnly(t *testing.T, on bool) {
	t.Helper()
	err := s.store.writes.do(t.Context(), call{alone: true, outside: func(w *writer) error {
		_, err := w.conn.ExecContext(t.Context(), fmt.Sprintf("PRAGMA query_only = %t", on))
		return err
	}})
	if err != nil {
		t.Fatal(err)
	}
}

// made is an attempt to create a token.
type made struct {
	id     string
	status int
}

// callers create tokens until they are stopped.
func (s *shop) callers(stop <-chan struct{}) <-chan made {
	all := make(chan made)
	var work sync.WaitGroup
	for caller := range 8 {
		work.Go(func() {
			for n := 0; ; n++ {
				id := fmt.Sprintf("%d-%d", caller, n)
				all <- made{id, s.create(id)}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	go func() {
		work.Wait()
		close(all)
	}()
	return all
}

// refuses checks that every request of a caller gets a 503.
func (s *shop) refuses(t *testing.T) {
	t.Helper()
	for _, r := range []struct{ method, path, body string }{
		{"POST", "/tokens", `{"id":"another","type":"token","data":"value"}`},
		{"GET", "/tokens/first", ""},
		{"PATCH", "/tokens/first", `{"data":"other"}`},
		{"DELETE", "/tokens/first", ""},
		{"GET", "/readyz", ""},
	} {
		if w := s.send(r.method, r.path, r.body); w.Code != 503 || r.path != "/readyz" && w.Header().Get("Retry-After") == "" {
			t.Errorf("%s %s is a %d, Retry-After %q", r.method, r.path, w.Code, w.Header().Get("Retry-After"))
		}
	}
	if err := s.store.Write(t.Context(), insert(token("direct"))); !errors.Is(err, storage.ErrUnavailable) {
		t.Errorf("Write: %v, want ErrUnavailable", err)
	}
}

// check reads every token whose creation was acknowledged. Callers see the data
// masked.
func (s *shop) check(t *testing.T, told map[string]int) {
	t.Helper()
	for id, status := range told {
		want := map[int]int{201: 200, 503: 404}[status]
		w := s.send("GET", "/tokens/"+id, "")
		if w.Code != want || want == 200 && !strings.Contains(w.Body.String(), `"data":"Xalue"`) {
			t.Errorf("token %s, whose create was a %d: %d, want %d", id, status, w.Code, want)
		}
	}
	if counted, stored := total(t, s.store); counted != stored {
		t.Errorf("%d tokens are counted, but %d are stored", counted, stored)
	}
}

// If a file becomes read-only, all requests get a 503, including reads, because
// reads are logged. When the file is writable again, exactly the acknowledged
// tokens exist.
func TestReadOnlyFileIsUnavailable(t *testing.T) {
	t.Parallel()
	s, stop := openShop(t), make(chan struct{})
	if status := s.create("first"); status != 201 {
		t.Fatalf("the first create is a %d", status)
	}
	all, told := s.callers(stop), map[string]int{"first": 201}
	await := func(status, count int) {
		for count > 0 {
			m := <-all
			told[m.id] = m.status
			if m.status == status {
				count--
			}
		}
	}
	await(201, 50)
	s.setReadOnly(t, true)
	await(503, 50)
	s.refuses(t)
	s.setReadOnly(t, false)
	await(201, 50)
	close(stop)
	for m := range all {
		told[m.id] = m.status
	}
	s.check(t, told)
}
