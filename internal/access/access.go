// Package access decides which callers may perform which operations on which
// tokens, and how much of a token's data they see.
//
// A [Grant] is compiled from access rules and plain permissions. It supports
// three questions: [Grant.Decide] decides on one token, [Grant.Filters]
// returns conditions for all tokens that a database can apply, and
// [Grant.Within] checks whether the holder may give a grant to others. The
// three agree, because each rule is reduced to the same form: a range of
// container paths and a range of token ids.
//
// # Rules
//
// A rule matches if it has the required permission and covers the token.
// Rules are checked in the order of their priority numbers, lowest first, and
// the first match decides. Plain permissions come after all rules. They work
// like rules on "/" with transform mask, except token:use, which has reveal.
//
// A rule on a container also covers all containers below it. A token in
// several containers needs the permission in each of them. Each container is
// decided separately. The strictest transform applies, and only destinations
// that all of them permit.
package access

// Transform is how much of a token's data is shown. A larger transform shows
// more.
type Transform uint8

// The transforms, strictest first. None means no access; a rule cannot have
// it.
const (
	None Transform = iota
	Redact
	Mask
	Reveal
)

var transformTexts = [...]string{None: "", Redact: "redact", Mask: "mask", Reveal: "reveal"}

// String returns the transform's name, which is empty for None.
func (t Transform) String() string {
	if int(t) < len(transformTexts) {
		return transformTexts[t]
	}
	return ""
}

// MarshalText returns the transform's name.
func (t Transform) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a transform's name. Unknown text gives None and no
// error, because None allows nothing, and [Check] rejects it with the path of
// the rule, which a decoder does not know.
func (t *Transform) UnmarshalText(text []byte) error {
	*t = None
	for i, name := range transformTexts {
		if name == string(text) {
			*t = Transform(i)
		}
	}
	return nil
}

// Attribute is the attribute of a token that a condition checks.
type Attribute string

// The attributes of a token that a condition can check.
const (
	ID        Attribute = "id"
	Container Attribute = "container"
)

// Operator is how a condition compares.
type Operator string

// The operators. Both compare byte for byte.
const (
	Equals     Operator = "equals"
	StartsWith Operator = "starts_with"
)

// Condition restricts a rule. The value of a container condition is a whole
// path: starts_with "/pci/" covers "/pci/" and everything below it, equals
// "/pci/" only that container.
type Condition struct {
	Attribute Attribute `json:"attribute"`
	Operator  Operator  `json:"operator"`
	Value     string    `json:"value"`
}

// Rule grants permissions on some tokens. A rule with a container covers that
// container and everything below it. A rule with conditions covers the tokens
// that meet all of them. If all conditions are about ids, the rule covers
// every container.
//
// A rule with destinations lets token:use send data to these hosts. It shows the
// caller nothing.
type Rule struct {
	Description  string       `json:"description,omitempty"`
	Priority     int          `json:"priority"`
	Container    string       `json:"container,omitempty"`
	Conditions   []Condition  `json:"conditions,omitempty"`
	Transform    Transform    `json:"transform"`
	Permissions  []string     `json:"permissions"`
	Destinations Destinations `json:"destinations,omitzero"`
}
