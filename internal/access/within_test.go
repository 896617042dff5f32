package access

import (
	"testing"
)

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
		{
			"an earlier rule limits a later one",
			rules(on(1, "/pci/", Reveal, TokenRead)),
			rules(on(1, "/pci/", Redact, TokenRead), on(2, "/", Reveal, TokenRead)), false,
		},
		{
			"also when the grant is above it",
			rules(on(1, "/", Reveal, TokenRead)),
			rules(on(1, "/pci/", Redact, TokenRead), on(2, "/", Reveal, TokenRead)), false,
		},
		{
			"the grant repeats the limit",
			rules(on(5, "/pci/", Redact, TokenRead), on(9, "/", Reveal, TokenRead)),
			rules(on(1, "/pci/", Redact, TokenRead), on(2, "/", Reveal, TokenRead)), true,
		},
		{
			"the grant repeats the limit too late",
			rules(on(9, "/pci/", Redact, TokenRead), on(5, "/", Reveal, TokenRead)),
			rules(on(1, "/pci/", Redact, TokenRead), on(2, "/", Reveal, TokenRead)), false,
		},
		{
			"ids of the authorizer",
			rules(when(1, Mask, Condition{ID, StartsWith, "ab"})), rules(when(1, Mask, Condition{ID, StartsWith, "a"})), true,
		},
		{
			"ids besides the authorizer's",
			rules(when(1, Mask, Condition{ID, StartsWith, "a"})), rules(when(1, Mask, Condition{ID, StartsWith, "ab"})), false,
		},
		{
			"one id of a range",
			rules(when(1, Mask, Condition{ID, Equals, "a"})), rules(when(1, Mask, Condition{ID, StartsWith, "a"})), true,
		},
		{
			"a limit on one id",
			rules(on(1, "/a/", Reveal, TokenRead)),
			rules(when(1, Mask, Condition{ID, Equals, "x"}), on(2, "/", Reveal, TokenRead)), false,
		},
		{
			"one container, not those below",
			rules(on(1, "/a/", Mask, TokenRead)), rules(when(1, Mask, Condition{Container, Equals, "/a/"})), false,
		},
		{
			"pieces that cover the whole only for now",
			rules(on(1, "/a/", Mask, TokenRead)),
			rules(on(1, "/a/b/", Mask, TokenRead), when(2, Mask, Condition{Container, Equals, "/a/"})), false,
		},
		{
			"different ways to see in different containers",
			rules(on(1, "/", Reveal, TokenRead)),
			rules(
				on(1, "/a/", Reveal, TokenRead), on(2, "/", Mask, TokenRead),
				on(3, "/a/", Mask, TokenUse), on(4, "/", Reveal, TokenUse),
			), false,
		},
		{"the unlimited authorizer", rules(on(1, "/", Reveal, onToken...)), Unlimited(), true},
		{"the unlimited grant", Unlimited(), plain(onToken...), false},
		{"unlimited both", Unlimited(), Unlimited(), true},
		{"not on tokens", plain(LogRead), plain(TokenRead), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := test.grant.Within(test.authorizer); got != test.want {
				t.Errorf("Within = %v", got)
			}
		})
	}
}
