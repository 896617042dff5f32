package access

import (
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestWithinIsExact covers the other combinations of rules.
func TestWithin(t *testing.T) {
	t.Parallel()
	plain := func(permissions ...string) *Grant { return mustNew(t, nil, permissions...) }
	rules := func(rules ...Rule) *Grant { return mustNew(t, rules) }
	for _, test := range []struct {
		name              string
		grant, authorizer *Grant
		want              bool
	}{
		{"nothing is within nothing", &Grant{}, &Grant{}, true},
		{"nothing is within anything", &Grant{}, plain(TokenRead), true},
		{"the same", plain(TokenRead, TokenUse), plain(TokenRead, TokenUse), true},
		{"creating", plain(TokenCreate), plain(TokenCreate, TokenRead), true},
		{"creating by a caller that cannot see", plain(TokenCreate), plain(TokenCreate), true},
		{"redacted, by a caller that cannot see", rules(on(1, "/", Redact, TokenCreate)), plain(TokenCreate), true},
		{"revealed, by a caller that cannot see", rules(on(1, "/", Reveal, TokenCreate)), plain(TokenCreate), false},
		{
			"creating with less to see", rules(on(1, "/", Mask, TokenCreate)),
			rules(on(1, "/", Redact, TokenCreate), on(2, "/", Redact, TokenRead)), false,
		},
		{"another permission", plain(TokenRead), plain(TokenCreate, TokenUse), false},
		{"a permission besides", plain(TokenRead, TokenUse), plain(TokenRead), false},
		{"a narrower container", rules(on(1, "/a/", Mask, TokenRead)), plain(TokenRead), true},
		{"a wider container", plain(TokenRead), rules(on(1, "/a/", Mask, TokenRead)), false},
		{"the parent", rules(on(1, "/a/", Mask, TokenRead)), rules(on(1, "/a/b/", Mask, TokenRead)), false},
		{"a stronger transform", rules(on(1, "/a/", Reveal, TokenRead)), plain(TokenRead), false},
		{"a weaker transform", rules(on(1, "/a/", Redact, TokenRead)), plain(TokenRead), true},
		{"reveal through use", rules(on(1, "/a/", Reveal, TokenRead)), plain(TokenRead, TokenUse), true},
		{"reveal on creating", rules(on(1, "/a/", Reveal, TokenCreate)), plain(TokenCreate, TokenRead), false},
		{"the unlimited authorizer", rules(on(1, "/", Reveal, onToken...)), Unlimited(), true},
		{"the unlimited grant", Unlimited(), plain(onToken...), false},
		{"unlimited both", Unlimited(), Unlimited(), true},
		{"not on tokens", plain(LogRead), plain(TokenRead), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			must.Same(t, "Within", test.want, test.grant.Within(test.authorizer))
		})
	}
}
