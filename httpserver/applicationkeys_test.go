package httpserver

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

// keysOf returns the keys of an application as the API lists them.
func (w *restVault) keysOf(path string) (list []map[string]any) {
	w.t.Helper()
	must.Do(w.t, json.Unmarshal([]byte(w.do("GET", path, w.ManagementKey, "").want(w.t, 200).body), &list))
	return list
}

func fieldsOf(key map[string]any) []string { return slices.Sorted(maps.Keys(key)) }

// Fields without a value are left out, and the text of a key is shown once.
func TestKeysOfAnApplication(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	made := w.do("POST", "/applications", w.ManagementKey, `{"name":"a","type":"private","permissions":["token:create"]}`).want(t, 201)
	path := "/applications/" + made.text(t, "id") + "/keys"
	use := func(key string) int { return w.do("POST", "/tokens", key, `{"type":"token","data":"x"}`).StatusCode }

	w.Clock.Advance(time.Minute)
	second := w.do("POST", path, w.ManagementKey, "").want(t, 201)
	second.headers(t, "Location", path+"/"+second.text(t, "id"))
	same(t, "created", fieldsOf(second.decode(t)), []string{"created_at", "created_by", "id", "key"})
	same(t, "created_by", second.text(t, "created_by"), w.Management.ApplicationID().String())
	end := w.Clock.Now().Add(time.Hour).Format(time.RFC3339)
	third := w.do("POST", path, w.ManagementKey, `{"expires_at":"`+end+`"}`).want(t, 201)
	same(t, "created with an end", fieldsOf(third.decode(t)), []string{"created_at", "created_by", "expires_at", "id", "key"})
	fourth := w.do("POST", path, w.ManagementKey, "{}").wantError(t, 409)
	same(t, "the fourth", fourth["detail"], any("An application has at most 3 keys; delete one first."))

	same(t, "used", use(second.text(t, "key")), 201)
	list := w.keysOf(path)
	var ids, fields []any
	for _, k := range list {
		ids, fields = append(ids, k["id"]), append(fields, fieldsOf(k))
	}
	same(t, "oldest first", ids[1:], []any{second.text(t, "id"), third.text(t, "id")})
	same(t, "fields", fields, []any{
		[]string{"created_at", "created_by", "id"}, []string{"created_at", "created_by", "id", "last_used_at"}, []string{"created_at", "created_by", "expires_at", "id"},
	})
	one := w.do("GET", path+"/"+second.text(t, "id"), w.ManagementKey, "").want(t, 200).decode(t)
	same(t, "one", one, list[1])

	w.do("DELETE", path+"/"+list[0]["id"].(string), w.ManagementKey, "").want(t, 204)
	same(t, "the deleted key", use(made.text(t, "key")), 401)
	same(t, "another key", use(second.text(t, "key")), 201)
	w.Clock.Advance(time.Hour)
	same(t, "the expired key", use(third.text(t, "key")), 401)
	same(t, "the keys that are left", len(w.keysOf(path)), 1)
	for range 2 { // expired keys do not count
		w.do("POST", path, w.ManagementKey, "").want(t, 201)
	}
	app := w.do("POST", path[:len(path)-len("keys")]+"regenerate", w.ManagementKey, "").want(t, 200)
	same(t, "all died", use(second.text(t, "key")), 401)
	same(t, "the new one", use(app.text(t, "key")), 201)
	same(t, "it is in the list", len(w.keysOf(path)), 1)
}

func TestKeysAreRefused(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	made := w.do("POST", "/applications", w.ManagementKey, `{"name":"a","type":"private","permissions":["token:create"]}`).want(t, 201)
	path := "/applications/" + made.text(t, "id") + "/keys"
	one := path + "/" + w.keysOf(path)[0]["id"].(string)
	other := w.do("POST", "/applications", w.ManagementKey, `{"name":"b","type":"private","permissions":["token:create"]}`).text(t, "id")
	nobody := "/applications/" + uuid.NewString() + "/keys"
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"POST", path, "", "", 401},
		{"POST", path, w.PrivateKey, "", 403},
		{"GET", path, w.PrivateKey, "", 403},
		{"GET", one, w.PrivateKey, "", 403},
		{"DELETE", one, w.PrivateKey, "", 403},
		{"POST", nobody, w.ManagementKey, "", 404},
		{"GET", nobody, w.ManagementKey, "", 404},
		{"GET", path + "/" + uuid.NewString(), w.ManagementKey, "", 404},
		{"GET", path + "/x", w.ManagementKey, "", 404},
		{"DELETE", path + "/" + uuid.NewString(), w.ManagementKey, "", 404},
		{"DELETE", "/applications/" + other + "/keys" + one[len(path):], w.ManagementKey, "", 404},
		{"PUT", one, w.ManagementKey, "{}", 405},
		{"PATCH", one, w.ManagementKey, "{}", 405},
		{"DELETE", path, w.ManagementKey, "", 405},
	} {
		w.do(c.method, c.path, c.key, c.body).want(t, c.status)
	}
	for body, field := range map[string]string{
		`[]`: "", `{`: "", `{"name":"x"}`: "name", `{"expires_at":1}`: "expires_at", `{"expires_at":"2020-01-01T00:00:00Z"}`: "expires_at", `{"expires_at":"soon"}`: "expires_at",
	} {
		w.do("POST", path, w.ManagementKey, body).wantFields(t, field)
	}
	w.do("GET", path+"?page=1&size=2", w.ManagementKey, "").wantFields(t, "page", "size")
	same(t, "keys", len(w.keysOf(path)), 1)
}

// Of concurrent calls for the last key only one succeeds.
func TestConcurrentFourthKey(t *testing.T) {
	t.Parallel()
	w := newRestVault(t, nil)
	path := "/applications/" + w.do("POST", "/applications", w.ManagementKey, `{"name":"a","type":"private","permissions":["token:create"]}`).text(t, "id") + "/keys"
	w.do("POST", path, w.ManagementKey, "").want(t, 201)
	statuses := make([]int, 8)
	var work sync.WaitGroup
	for n := range statuses {
		work.Go(func() { statuses[n] = w.do("POST", path, w.ManagementKey, "").StatusCode })
	}
	work.Wait()
	slices.Sort(statuses)
	same(t, "statuses", statuses, []int{201, 409, 409, 409, 409, 409, 409, 409})
}

// An application without a key gets one later. The entries name the key that was used
// and the key that was made.
func TestApplicationWithoutAKey(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	w := restVaultOf(t, v, nil)
	made := w.do("POST", "/applications", w.ManagementKey, `{"name":"a","type":"private","permissions":["token:create"],"create_key":false}`).want(t, 201)
	made.lacks(t, `"key"`)
	path := "/applications/" + made.text(t, "id")
	w.do("GET", path+"/keys", w.ManagementKey, "").want(t, 200).has(t, "[]")
	w.do("PUT", path, w.ManagementKey, `{"name":"a","permissions":["token:create"],"create_key":true}`).wantFields(t, "create_key")
	w.do("PATCH", path, w.ManagementKey, `{"create_key":true}`).wantFields(t, "create_key")
	k := w.do("POST", path+"/keys", w.ManagementKey, "", "SVC-IDEMPOTENCY-KEY", "k").want(t, 201)
	again := w.do("POST", path+"/keys", w.ManagementKey, "", "SVC-IDEMPOTENCY-KEY", "k").want(t, 201)
	same(t, "repeated", again.body, k.body)
	used := w.keysOf("/applications/" + v.Management.ApplicationID().String() + "/keys")[0]["id"].(string)
	w.do("DELETE", path+"/keys/"+k.text(t, "id"), w.ManagementKey, "").want(t, http.StatusNoContent)
	var page struct {
		Data []struct {
			EntityType string `json:"entity_type"`
			EntityID   string `json:"entity_id"`
			Message    string
		}
	}
	must.Do(t, json.Unmarshal([]byte(w.do("GET", "/logs?operation=key", w.ManagementKey, "").want(t, 200).body), &page))
	var got []string
	for _, e := range page.Data {
		got = append(got, e.EntityType+" "+e.EntityID+" "+e.Message)
	}
	slices.Sort(got)
	entry := "application " + made.text(t, "id") + " Application key " + k.text(t, "id")
	same(t, "entries", got, []string{entry + " created with key " + used, entry + " deleted with key " + used})
}
