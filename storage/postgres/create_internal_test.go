package postgres

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seed-72ea4aab/vault/storage"
)

// The statement for a single token and its parameters are what composing the
// change would give.
func TestCreateIsComposed(t *testing.T) {
	t.Parallel()
	hold := &storage.Hold{Kind: "ring", ID: storage.ID{9}, Rev: 3}
	for _, hashes := range []int{0, 1, 2, maxListedHashes, maxListedHashes + 1, maxListedHashes + 5} {
		for _, h := range []*storage.Hold{nil, hold} {
			t.Run(fmt.Sprint(hashes, " hashes, held ", h != nil), func(t *testing.T) {
				t.Parallel()
				s := &slot{layout: oneServer{}, shard: 7}
				token := storage.Token{Ord: storage.ID{1}, ID: "token", Type: "card", Containers: []string{"/a/", "/b/"}, Body: []byte("body"), KeyVersion: 2, Rev: 1}
				for i := range hashes {
					token.Hashes = append(token.Hashes, storage.Hash{byte(i)})
				}
				if hashes == 2 {
					token.Hashes = append(token.Hashes, token.Hashes[0])
					token.CVC, token.ExpiresAt, token.CreatedBy = []byte("123"), time.Unix(1, 0), storage.ID{8}
				}
				c := &storage.Change{Tenant: storage.ID{5}, InsertTokens: []storage.Token{token}, Hold: h,
					Logs: []storage.Log{{ID: storage.ID{6}, EntityID: "token", Operation: "create", Mac: storage.Hash{4}}}}
				if !createsOne(c) {
					t.Fatal("it does not create a single token")
				}
				st := s.composed(c)
				for range 2 { // composed, and then kept
					if diff := cmp.Diff(st.text(), s.createText(c)); diff != "" {
						t.Errorf("the statement differs (-want +got):\n%s", diff)
					}
				}
				if diff := cmp.Diff(st.args, s.createArgs(c)); diff != "" {
					t.Errorf("the parameters differ (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A change with anything besides a token and its log entry is composed, because the
// kept statement would leave it out.
func TestOnlyPlainCreatesAreKept(t *testing.T) {
	t.Parallel()
	inKept := []string{"Tenant", "Now", "Before", "Unsure", "Hold", "InsertTokens", "Logs", "Relaxed"}
	for field := range reflect.TypeFor[storage.Change]().Fields() {
		if slices.Contains(inKept, field.Name) {
			continue
		}
		c := storage.Change{InsertTokens: make([]storage.Token, 1), Logs: make([]storage.Log, 1)}
		v := reflect.ValueOf(&c).Elem().FieldByIndex(field.Index)
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(field.Type.Elem()))
		} else {
			v.Set(reflect.MakeSlice(field.Type, 1, 1))
		}
		if createsOne(&c) {
			t.Errorf("a change with %s counts as a plain create", field.Name)
		}
	}
}
