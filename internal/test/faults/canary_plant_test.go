package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/internal/test/must"
	"github.com/seed-72ea4aab/vault/script"
)

// canaries are values that may appear in responses and nowhere else.
var canaries = map[string]string{
	"token data":         "canary-data-5f1e",
	"key in data":        "canary-name-99ab",
	"card number":        "4000056655665556",
	"cvc":                "9173",
	"account number":     "73190046218",
	"social security":    "536-22-8726",
	"metadata":           "canary-metadata-c3d9",
	"patched data":       "canary-patch-77aa",
	"index value":        "canary-index-0b0b",
	"mask":               "canary-mask-b7b7",
	"configuration":      "canary-config-1d1d",
	"reactor code":       "canary-code-e2e2",
	"idempotent answer":  "canary-answer-f8f8",
	"webhook secret":     "", // set by the test
	"public key":         "",
	"session key":        "",
	"session nonce":      "",
	"proxy key":          "",
	"regenerated key":    "",
	"master key":         "",
	"tokenized document": "canary-document-4a4a",

	"patched cvc":           "8264",
	"deleted data":          "canary-deleted-6c6c",
	"patched metadata":      "canary-patchmeta-2e2e",
	"expression":            "canary-expression-a1a1",
	"index expression":      "canary-indexexpr-3b3b",
	"rule":                  "canary-rule-9d9d",
	"grant":                 "canary-grant-5a5a",
	"proxy configuration":   "canary-proxyconfig-c0c0",
	"proxy transform":       "canary-transform-d4d4",
	"path of a destination": "canary-path-7e7e",
	"idempotency key":       "canary-oncekey-b2b2",
	"leased answer":         "canary-leased-e9e9",
	"argument of a job":     "canary-argument-f3f3",
	"address of a callback": "canary-callback-1a1a",
	"message of code":       "canary-message-6f6f",
	"next webhook secret":   "",
}

// plantCanaries stores every canary in every possible place. It returns the
// canaries and the secrets that the vault generated itself.
func plantCanaries(t *testing.T, v *vault.Vault, key *vault.Key) map[string]string {
	t.Helper()
	ctx := t.Context()
	found := map[string]string{}
	for name, value := range canaries {
		found[name] = value
	}
	tenant := must.Get(v.CreateTenant(ctx, "Acme"))(t)
	c := v.Tenant(tenant.ID)
	found["master key"] = key.Text()
	found["webhook secret"] = tenant.WebhookSecret

	for _, p := range []vault.TokenParams{
		{Type: vault.TypeGeneric, Data: map[string]string{canaries["key in data"]: canaries["token data"]}, Mask: canaries["mask"]},
		{Type: vault.TypeGeneric, Data: canaries["index value"], SearchIndexes: []string{"{{ data }}"}, Metadata: map[string]string{"k": canaries["metadata"]}},
		{Type: vault.TypeCard, Data: vault.CardData{Number: canaries["card number"], CVC: canaries["cvc"]}},
		{Type: vault.TypeBank, Data: vault.BankData{RoutingNumber: "021000021", AccountNumber: canaries["account number"]}},
		{Type: vault.TypeSocialSecurityNumber, Data: canaries["social security"]},
	} {
		tok := must.Get(c.CreateToken(ctx, p))(t)
		must.Get(c.GetToken(ctx, tok.ID))(t)
		must.Get(c.Detokenize(ctx, "{{ "+tok.ID+" }}"))(t)
	}
	tok := must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: "x"}))(t)
	must.Get(c.PatchToken(ctx, tok.ID, vault.JSON(fmt.Sprintf(`{"data":%q}`, canaries["patched data"]))))(t)
	must.Get(c.Tokenize(ctx, map[string]any{"a": []string{canaries["tokenized document"]}}))(t)
	must.Get(c.SearchTokens(ctx, vault.SearchTokensParams{Query: "data:" + canaries["index value"]}))(t)
	plantKeys(t, v, c.Client, found)
	plantAnswers(t, c.Client)
	plantChanges(t, c.Client, found)
	plantJobs(t, v, c.Client)
	return found
}

// plantAnswers stores responses for idempotency keys.
func plantAnswers(t *testing.T, c *vault.Client) {
	t.Helper()
	for canary, lease := range map[string]time.Duration{"idempotent answer": 0, "leased answer": time.Hour} {
		key := vault.IdempotencyKey{Scope: "POST /" + canaries["path of a destination"], Key: canaries["idempotency key"] + canary, Lease: lease}
		for range 2 { // the second call gets the first response
			a, _, err := c.Once(t.Context(), key, func(context.Context, *vault.Client) (vault.StoredResponse, error) {
				return vault.StoredResponse{Status: 201, Body: []byte(canaries[canary])}, nil
			})
			if err != nil || string(a.Body) != canaries[canary] {
				t.Fatalf("%s: %v", canary, err)
			}
		}
	}
}

// plantChanges stores canaries in things that it then changes and deletes.
func plantChanges(t *testing.T, c *vault.Client, found map[string]string) {
	t.Helper()
	ctx := t.Context()
	card := must.Get(c.CreateToken(ctx, vault.TokenParams{
		Type: vault.TypeCard, Data: vault.CardData{Number: "4242424242424242"},
		FingerprintExpression: "{{ data.number | append: '" + canaries["expression"] + "' }}",
		SearchIndexes:         []string{"{{ data.number | append: '" + canaries["index expression"] + "' }}"},
	}))(t)
	patch := fmt.Sprintf(`{"data":{"cvc":%q},"metadata":{"k":%q},"mask":{"x":%q}}`, canaries["patched cvc"], canaries["patched metadata"], canaries["mask"])
	must.Get(c.PatchToken(ctx, card.ID, vault.JSON(patch)))(t)
	gone := must.Get(c.CreateToken(ctx, vault.TokenParams{Type: vault.TypeGeneric, Data: canaries["deleted data"]}))(t)
	must.Do(t, c.DeleteToken(ctx, gone.ID))
	for _, query := range []string{`metadata.k:"` + canaries["patched metadata"] + `"`, "data:4242424242424242" + canaries["index expression"]} {
		page, err := c.SearchTokens(ctx, vault.SearchTokensParams{Query: query})
		if err != nil || page.Pagination.TotalItems != 1 {
			t.Fatalf("the search found %d tokens (%v)", page.Pagination.TotalItems, err)
		}
	}
	tenant := must.Get(c.RotateWebhookSecret(ctx))(t)
	found["next webhook secret"] = tenant.WebhookSecret
}

// failing is a runtime in which all code fails with a canary in its message.
type failing struct{ vault.Runtime }

func (failing) Check(context.Context, script.Program) error { return nil }
func (failing) Close() error                                { return nil }
func (failing) Run(_ context.Context, _ script.Program, _ json.RawMessage, host script.Host) (json.RawMessage, error) {
	host.Log(script.Line{Level: "log", Text: canaries["message of code"]})
	return nil, &script.Error{Kind: script.Thrown, Status: 500, Title: script.DefaultTitle,
		Messages: map[string][]string{"error": {canaries["message of code"]}}}
}

// plantJobs stores jobs for later and runs one whose callback fails.
func plantJobs(t *testing.T, v *vault.Vault, c *vault.Client) {
	t.Helper()
	ctx := t.Context()
	r := must.Get(c.CreateReactor(ctx, vault.ReactorParams{Name: "later", Code: "x", Configuration: map[string]string{}}))(t)
	hooks := httptest.NewServer(http.NotFoundHandler())
	hooks.Close() // the destination is down
	later := vault.ReactParams{Args: map[string]string{"a": canaries["argument of a job"]}, CallbackURL: hooks.URL + "/" + canaries["address of a callback"]}
	for _, work := range []bool{true, false} {
		must.Get(c.ReactAsync(ctx, r.ID, later))(t)
		if !work {
			break
		}
		must.Do(t, v.Work(ctx))
	}
}

func plantKeys(t *testing.T, v *vault.Vault, c *vault.Client, found map[string]string) {
	t.Helper()
	ctx := t.Context()
	rules := []vault.AccessRule{{Description: canaries["rule"], Priority: 1, Transform: vault.TransformMask, Permissions: []vault.Permission{"token:create"},
		Conditions: []vault.Condition{{Attribute: "id", Operator: "equals", Value: canaries["rule"]}}}}
	public := must.Get(c.CreateApplication(ctx, vault.ApplicationParams{Name: "p", Type: vault.ApplicationPublic, Permissions: []vault.Permission{"token:create"}, Rules: rules}))(t)
	found["public key"] = public.Key
	pc := must.Get(v.Authenticate(ctx, public.Key))(t)
	s := must.Get(pc.CreateSession(ctx))(t)
	found["session key"], found["session nonce"] = s.SessionKey, s.Nonce
	rules[0].Description, rules[0].Conditions[0].Value = canaries["grant"], canaries["grant"]
	must.Do(t, c.AuthorizeSession(ctx, vault.SessionGrant{Nonce: s.Nonce, Permissions: []vault.Permission{"token:create"}, Rules: rules}))
	again := must.Get(c.RegenerateKey(ctx, public.ID))(t)
	found["regenerated key"] = again.Key
	configuration := map[string]string{"SECRET": canaries["configuration"]}
	must.Get(c.CreateReactor(ctx, vault.ReactorParams{Name: "r", Code: "// " + canaries["reactor code"], Configuration: configuration}))(t)
	transform := &vault.ProxyTransform{Code: "// " + canaries["proxy transform"]}
	proxy := must.Get(c.CreateProxy(ctx, vault.ProxyParams{
		Name: "x", DestinationURL: "https://example.com/" + canaries["path of a destination"], RequestTransform: transform, ResponseTransform: transform,
		Configuration: map[string]string{"SECRET": canaries["proxy configuration"]},
	}))(t)
	found["proxy key"] = proxy.Key
}
