package vault_test

import (
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/vaulttest"
)

func TestExpiryFormats(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for text, want := range map[string]string{
		"8/26/2030":                    "2030-08-26T00:00:00Z",
		"08/06/2030":                   "2030-08-06T00:00:00Z",
		"8/26/2030 7:23:57 PM -07:00":  "2030-08-27T02:23:57Z",
		"8/26/2030 7:23:57 AM +05:30":  "2030-08-26T01:53:57Z",
		"8/26/2030 12:00:00 AM +00:00": "2030-08-26T00:00:00Z",
		"8/26/2030 12:00:00 PM":        "2030-08-26T12:00:00Z",
		"8/26/2030 7:23:57 PM":         "2030-08-26T19:23:57Z",
		"2030-08-26T19:23:57Z":         "2030-08-26T19:23:57Z",
		"2030-08-26T19:23:57+02:00":    "2030-08-26T17:23:57Z",
		"2030-08-26T19:23:57.1234567Z": "2030-08-26T19:23:57.123456Z",
		"2030-08-26T19:23:57":          "2030-08-26T19:23:57Z",
		"2030-08-26":                   "2030-08-26T00:00:00Z",
		"2030-08-26T19:23:57-07":       "2030-08-27T02:23:57Z",
		"2030-08-26T19:23+02":          "2030-08-26T17:23:00Z",
		"20300826T192357Z":             "2030-08-26T19:23:57Z",
		"20300826T192357+0200":         "2030-08-26T17:23:57Z",
		"20300826T1923":                "2030-08-26T19:23:00Z",
		"20300826":                     "2030-08-26T00:00:00Z",
	} {
		tok, err := createJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"`+text+`"}`)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		same(t, text, tok.ExpiresAt.Format(time.RFC3339Nano), want)
		same(t, text+" read", get(t, v.Private, tok.ID).ExpiresAt.Format(time.RFC3339Nano), want)
	}
	for _, text := range []string{"", "soon", "2030-08-26T19:23:57+0200", "13/1/2030", "2/30/2030", "8/26/30", "8/26/2030 19:23:57 PM", "1893456000", "8/26/2030 7:23:57 PM UTC"} {
		_, err := createJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"`+text+`"}`)
		wantFields(t, "expires_at "+text, err, "expires_at")
	}
}

func TestPastExpiryIsRefused(t *testing.T) {
	t.Parallel()
	v := vaulttest.New(t)
	for _, at := range []time.Time{vaulttest.Start, vaulttest.Start.Add(-time.Second), {}} {
		_, err := v.Private.CreateToken(t.Context(), vault.TokenParams{Type: vault.Generic, Data: "x", ExpiresAt: &at})
		if at.IsZero() {
			if err != nil {
				t.Errorf("a zero time means none: %v", err)
			}
			continue
		}
		wantFields(t, at.String(), err, "expires_at")
	}
	_, err := createJSON(t, v.Private, `{"type":"token","data":"x","expires_at":"1/1/2026"}`)
	wantFields(t, "midnight of today", err, "expires_at")
}

// From its expiry on a token is invisible to every operation, swept or not.
func TestExpiredTokensAreInvisible(t *testing.T) {
	t.Parallel()
	v, store := spied(t)
	tok := create(t, v.Private, vault.TokenParams{ID: "short", Type: vault.Generic, Data: "secret", SearchIndexes: []string{"{{ data }}"},
		Metadata: map[string]string{"k": "v"}, ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))})
	kept := create(t, v.Private, vault.TokenParams{Type: vault.Generic, Data: "secret"})
	v.Clock.Advance(time.Hour - time.Microsecond)
	get(t, v.Private, tok.ID)
	v.Clock.Advance(time.Microsecond)
	for name, err := range map[string]error{
		"GetToken":    second(v.Tenant.GetToken(t.Context(), tok.ID)),
		"UpdateToken": second(v.Tenant.UpdateToken(t.Context(), tok.ID, vault.JSON(`{"expires_at":null}`))),
		"DeleteToken": v.Tenant.DeleteToken(t.Context(), tok.ID),
	} {
		wantError(t, name, err, vault.ErrNotFound)
	}
	_, err := v.Tenant.Detokenize(t.Context(), vault.JSON(`"{{ short }}"`))
	wantError(t, "Detokenize", err, vault.ErrInvalid)
	found, total := list(t, v.Tenant, vault.ListTokensParams{})
	same(t, "list", found, []string{kept.ID})
	same(t, "total", total, 1)
	for _, q := range []string{"id:short", "data:secret", "metadata.k:v", "type:token AND -id:" + kept.ID} {
		page, err := v.Tenant.SearchTokens(t.Context(), vault.SearchTokensParams{Query: q})
		if err != nil || page.Pagination.TotalItems != 0 || len(page.Data) != 0 {
			t.Errorf("%s finds %d tokens (%v)", q, page.Pagination.TotalItems, err)
		}
	}
	for tok, err := range v.Tenant.AllTokens(t.Context(), vault.ListTokensParams{}) {
		if err != nil || tok.ID != kept.ID {
			t.Errorf("AllTokens: %v %v", tok, err)
		}
	}
	if len(store.rows(t, v.Acme.ID, "short")) != 1 {
		t.Fatal("the row is gone before the sweep, so the test proves nothing")
	}
	if swept, err := v.Sweep(t.Context()); err != nil || swept.Tokens != 1 {
		t.Errorf("the sweep deletes %d tokens (%v)", swept.Tokens, err)
	}
	if len(store.rows(t, v.Acme.ID, "short")) != 0 {
		t.Error("the row is there after the sweep")
	}
	same(t, "log", operations(t, v, "short"), []string{"create", "read", "expire"})
}

func second[T any](_ T, err error) error { return err }

// The id of an expired token is free, also before the sweep.
func TestExpiredTokenMakesRoomForItsID(t *testing.T) {
	t.Parallel()
	short := vault.TokenParams{ID: "same", Type: vault.Generic, Data: "old", ExpiresAt: ptr(vaulttest.Start.Add(time.Hour))}
	for name, again := range map[string]func(t *testing.T, c *vault.Client) error{
		"CreateToken": func(t *testing.T, c *vault.Client) error {
			return second(c.CreateToken(t.Context(), vault.TokenParams{ID: "same", Type: vault.Generic, Data: "new"}))
		},
		"Tokenize": func(t *testing.T, c *vault.Client) error {
			return second(c.Tokenize(t.Context(), vault.JSON(`["x",{"id":"same","type":"token","data":"new"}]`)))
		},
		"Once": func(t *testing.T, c *vault.Client) error {
			_, _, err := c.Once(t.Context(), vault.OnceKey{Key: "k"}, func(ctx contextT, c *vault.Client) (vault.Answer, error) {
				return vault.Answer{}, second(c.CreateToken(ctx, vault.TokenParams{ID: "same", Type: vault.Generic, Data: "new"}))
			})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := vaulttest.New(t)
			create(t, v.Private, short)
			wantError(t, "while it lives", again(t, v.Private), vault.ErrConflict)
			v.Clock.Advance(time.Hour)
			if err := again(t, v.Private); err != nil {
				t.Fatal(err)
			}
			wantData(t, "data", get(t, v.Tenant, "same").Data, `"new"`)
			same(t, "log", operations(t, v, "same"), []string{"create", "expire", "create", "read"})
		})
	}
}
