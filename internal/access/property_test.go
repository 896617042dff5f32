package access

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/long"
	"github.com/seed-72ea4aab/vault/storage"
)

// The world of the property tests. Rules use the letters a and b down to the
// second level. Tokens also use z, which is in no rule, and the third level.
var (
	ruleIDs    = []string{"a", "b", "aa", "ab", "ba"}
	rulePaths  = []string{"/", "/a/", "/b/", "/a/a/", "/a/b/"}
	worldIDs   = []string{"a", "b", "z", "aa", "ab", "az", "ba", "bz", "aaz", "abz", "baz", "aza"}
	worldPaths = []string{"/", "/a/", "/b/", "/z/", "/a/a/", "/a/b/", "/a/z/", "/b/z/", "/a/a/z/", "/a/b/z/"}
	hosts      = []string{"x.test", "y.test", "*.test", "a.x.test", "*.x.test"}
	paths      = []string{"", "", "/", "/**", "/a", "/a/", "/a/*", "/*/b", "/*/**", "/a/**", "/a/b", "/a/*/c"}
	methods    = []string{"", "", "GET ", "POST ", "GET,POST ", "PUT "}
	targets    = everyTarget()
	onToken    = []string{TokenCreate, TokenRead, TokenUpdate, TokenDelete, TokenSearch, TokenUse}
)

// everyTarget returns the zero Target, and all requests of the world.
func everyTarget() []Target {
	all, n := []Target{{}}, 0
	for _, host := range []string{"x.test", "y.test", "z.test", "a.x.test", "b.x.test", "x.test:8443"} {
		for _, method := range []string{"GET", "POST", "get", "DELETE"} {
			for _, path := range []string{"/", "/a", "/%61", "/a/", "/a/b", "/b", "/b/b", "/a/b/", "/a/b/c", "/a/b/d", "/a//b", "/a/..", "/a/%2e%2e/b", "/a;b", "/a%2Fb", "/a%5cb", "/a/%25", "*", "/A"} {
				if n++; n%long.Rounds(7, 1) == 0 { // 7 shares no factor with the numbers of each
					all = append(all, Target{host, method, path})
				}
			}
		}
	}
	return all
}

// worldSets has every set of one or two containers.
var worldSets = func() [][]string {
	var sets [][]string
	for i, a := range worldPaths {
		sets = append(sets, []string{a})
		for _, b := range worldPaths[i+1:] {
			sets = append(sets, []string{a, b})
		}
	}
	return sets
}()

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// some returns each permission with a probability of chance in 10.
func some(r *rand.Rand, chance int) []string {
	return slices.DeleteFunc(slices.Clone(onToken), func(string) bool { return r.IntN(10) >= chance })
}

func randomRule(r *rand.Rand, priority int) Rule {
	rule := Rule{Priority: priority, Transform: pick(r, []Transform{Redact, Mask, Reveal}), Permissions: some(r, 5)}
	if len(rule.Permissions) == 0 {
		rule.Permissions = []string{TokenRead}
	}
	if r.IntN(3) == 0 {
		rule.Permissions, rule.Transform = []string{TokenUse}, Reveal
		for range 1 + r.IntN(3) {
			rule.Destinations = append(rule.Destinations, pick(r, methods)+pick(r, hosts)+pick(r, paths))
		}
	}
	if r.IntN(2) == 0 {
		rule.Container = pick(r, rulePaths)
		return rule
	}
	for range 1 + r.IntN(3) {
		c := Condition{ID, pick(r, []Operator{Equals, StartsWith}), pick(r, ruleIDs)}
		if r.IntN(2) == 0 {
			c.Attribute, c.Value = Container, pick(r, rulePaths)
		}
		rule.Conditions = append(rule.Conditions, c)
	}
	return rule
}

// randomGrant returns a grant with a few rules and shuffled priorities.
func randomGrant(t testing.TB, r *rand.Rand) ([]Rule, []string, *Grant) {
	t.Helper()
	var rules []Rule
	for _, priority := range r.Perm(r.IntN(5)) {
		rules = append(rules, randomRule(r, priority+1))
	}
	permissions := some(r, r.IntN(4))
	return rules, permissions, mustNew(t, rules, permissions...)
}

// naive decides for one container directly from the rules.
func naive(rules []Rule, permissions []string, permission, id, container string, to Target) Transform {
	best, at := None, 0
	for _, rule := range rules {
		if naiveCovers(rule, id, container) && slices.Contains(rule.Permissions, permission) &&
			(at == 0 || rule.Priority < at) {
			best, at = rule.Transform, rule.Priority
			if rule.Destinations != nil && !slices.ContainsFunc(rule.Destinations, to.naivelyIn) {
				best = None
			}
		}
	}
	switch {
	case at > 0:
		return best
	case !slices.Contains(permissions, permission):
		return None
	case permission == TokenUse:
		return Reveal
	default:
		return Mask
	}
}

// naivelyIn reads a destination as a regular expression over the request line. Only
// the paths of the world count.
func (t Target) naivelyIn(destination string) bool {
	method, rest, ok := strings.Cut(destination, " ")
	if !ok {
		method, rest = ".*", destination
	}
	host, path, ok := strings.Cut(rest, "/")
	host = strings.ReplaceAll(regexp.QuoteMeta(host), `\*`, `[^.]+`)
	target := strings.ReplaceAll(t.Path, "%61", "a")
	switch {
	case !ok:
		path = ".*"
	case regexp.MustCompile(`//|\.\.|(?i)[;\\]|%`).MatchString(strings.ReplaceAll(target, "%2e", ".")):
		return false
	default:
		path = "/" + path
		if rest, ok := strings.CutSuffix(path, "/**"); ok {
			path = strings.ReplaceAll(rest, "*", "[^/]+") + "(/.*)?"
		} else {
			path = strings.ReplaceAll(path, "*", "[^/]+")
		}
	}
	return regexp.MustCompile("^(" + strings.ReplaceAll(method, ",", "|") + ") (" + host + ") (" + path + ")$").MatchString(t.Method + " " + t.Host + " " + target)
}

func naiveCovers(rule Rule, id, container string) bool {
	if rule.Container != "" {
		return strings.HasPrefix(container, rule.Container)
	}
	for _, c := range rule.Conditions {
		v := id
		if c.Attribute == Container {
			v = container
		}
		if c.Operator == Equals && v != c.Value || !strings.HasPrefix(v, c.Value) {
			return false
		}
	}
	return true
}

func TestDecideAgreesWithTheRules(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range long.Rounds(50, 400) {
		rules, permissions, g := randomGrant(t, r)
		for range 200 {
			permission, id, set, to := pick(r, onToken), pick(r, worldIDs), pick(r, worldSets), pick(r, targets)
			want := Reveal
			for _, container := range set {
				want = min(want, naive(rules, permissions, permission, id, container, to))
			}
			if got := g.DecideTo(permission, id, set, to); got.Transform != want {
				t.Fatalf("DecideTo(%s, %s, %v, %q) = %v, want %v\nrules %+v\npermissions %v",
					permission, id, set, to, got, want, rules, permissions)
			}
		}
	}
}

// meets evaluates a condition as a database would. Nil holds for every token.
func meets(cond storage.Cond, id string, set int) bool {
	holds := func(c storage.Cond) bool { return meets(c, id, set) }
	switch c := cond.(type) {
	case storage.And:
		return !slices.ContainsFunc(c, func(c storage.Cond) bool { return !holds(c) })
	case storage.Or:
		return slices.ContainsFunc(c, holds)
	case storage.Not:
		return !holds(c.Cond)
	case storage.SetIn:
		return slices.Contains(c, storage.Hash{byte(set)})
	case storage.IDIn:
		return slices.Contains(c, id)
	case storage.IDPrefix:
		return strings.HasPrefix(id, string(c))
	default:
		return cond == nil
	}
}

// Conditions match the tokens that Decide allows, with every transform, also for
// limited grants.
func TestConditionsAgreeWithDecide(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var all, nothing, narrowed int
	for n := range long.Rounds(120, 1200) {
		rules, permissions, g := randomGrant(t, r)
		kind := []string{"own", "under", "delegated"}[n%3]
		if _, _, other := randomGrant(t, r); kind == "under" {
			g = g.Under(other)
		} else if kind == "delegated" {
			g = g.DelegatedBy(other)
		}
		permission, least := pick(r, onToken), pick(r, []Transform{Redact, Mask, Reveal})
		f := g.Condition(permission, least, setsOf(worldSets...))
		allowed, tokens := 0, 0
		for i, set := range worldSets {
			for _, id := range worldIDs {
				transform, _ := g.Decide(permission, id, set)
				want := transform >= least
				if meets(f, id, i) != want {
					t.Fatalf("%s, %s with %s on %s in %v: the condition says %v, Decide %v\ncondition %+v\nrules %+v\npermissions %v",
						kind, permission, least, id, set, !want, want, f, rules, permissions)
				}
				if tokens++; want {
					allowed++
				}
			}
		}
		if allowed > 0 && !g.Shows(permission, least) {
			t.Fatalf("%s: Shows denies what Decide allows", kind)
		}
		switch allowed {
		case tokens:
			all++
		case 0:
			nothing++
		default:
			narrowed++
		}
	}
	if min(all, nothing, narrowed) < long.Rounds(3, 15) {
		t.Errorf("the grants are not varied: %d all, %d nothing, %d narrowed", all, nothing, narrowed)
	}
}

// A limited grant allows no more than its own rules and its limits. A
// delegated grant within its authorizer's rights loses nothing while these
// stay the same.
func TestLimitsNeverWiden(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	kept := 0
	for range long.Rounds(30, 600) {
		_, _, g := randomGrant(t, r)
		_, _, by := randomGrant(t, r)
		under, delegated, within := g.Under(by), g.DelegatedBy(by), g.Within(by)
		for _, set := range worldSets {
			for _, id := range worldIDs {
				for _, permission := range onToken {
					to := pick(r, targets)
					own, other := g.DecideTo(permission, id, set, to).Transform, by.DecideTo(permission, id, set, to).Transform
					best := max(other, by.Best(id, set))
					if got := under.DecideTo(permission, id, set, to).Transform; got != min(own, other) {
						t.Fatalf("under: %s, want the stricter of %s and %s", got, own, other)
					}
					want := min(own, best)
					if other == None {
						want = None
					}
					if got := delegated.DecideTo(permission, id, set, to).Transform; got != want || within && got != own {
						t.Fatalf("delegated: %s, want %s of %s", got, want, own)
					}
				}
			}
		}
		if within {
			kept++
		}
	}
	if kept == 0 {
		t.Errorf("only %d grants are within their authorizer's", kept)
	}
}

// exceeds reports whether the grant gives more than the authorizer has on a
// token of the world.
func exceeds(g, authorizer *Grant) bool {
	for _, id := range worldIDs {
		for _, set := range worldSets {
			for _, permission := range onToken {
				if slices.ContainsFunc(targets, func(to Target) bool {
					given, own := g.DecideTo(permission, id, set, to).Transform, authorizer.DecideTo(permission, id, set, to).Transform
					return given != None && (own == None || given > max(own, authorizer.Best(id, set)))
				}) {
					return true
				}
			}
		}
	}
	return false
}

func TestWithinIsExact(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var accepted, refused, untold int
	for accepted+refused < long.Rounds(60, 400) {
		rules, permissions, g := randomGrant(t, r)
		theirRules, theirPermissions, authorizer := randomGrant(t, r)
		got := g.Within(authorizer)
		if g.carried&^authorizer.carried != 0 {
			if got {
				t.Fatalf("a permission that the authorizer lacks is within its rights\ngrant %+v %v\nauthorizer %+v %v",
					rules, permissions, theirRules, theirPermissions)
			}
			continue // refused because of permissions alone, even if no token is affected
		}
		over := exceeds(g, authorizer)
		if got == over && !got && len(g.Destinations()) > 0 {
			untold++ // only several destinations together permit as much
		} else if got == over {
			t.Fatalf("Within = %v, but the grant exceeds the authorizer: %v\ngrant %+v %v\nauthorizer %+v %v",
				got, over, rules, permissions, theirRules, theirPermissions)
		}
		if got {
			accepted++
		} else {
			refused++
		}
	}
	if untold > refused/10 {
		t.Errorf("%d of %d grants are refused without need", untold, refused)
	}
	if min(accepted, refused) < long.Rounds(10, 80) {
		t.Errorf("the grants are not varied: %d accepted, %d refused", accepted, refused)
	}
}

// TestOnAllHoldsForEveryToken compares OnAll with the decision on each token.
func TestOnAllHoldsForEveryToken(t *testing.T) {
	t.Parallel()
	r, certain := rand.New(rand.NewPCG(1, 2)), 0
	for range long.Rounds(400, 2000) {
		_, _, g := randomGrant(t, r)
		permission := pick(r, onToken)
		if !g.OnAll(permission) {
			continue
		}
		certain++
		for _, set := range worldSets {
			if _, ok := g.Decide(permission, pick(r, worldIDs), set); !ok {
				t.Fatalf("%s is refused in %v", permission, set)
			}
		}
	}
	if certain == 0 {
		t.Error("no grant was on all tokens")
	}
}
