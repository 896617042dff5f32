// Package access decides who may do what with which token, and how much of the
// token's data they see.
//
// A [SessionGrant] is compiled from access rules and plain permissions. It answers for
// one token ([Grant.Decide]), for all tokens at once as a condition that a
// database can apply ([Grant.Filter]), and for a grant that its holder wants to
// give to others ([Grant.Within]). The three agree, because each rule is
// reduced to the same thing: a range of container paths and a range of token
// ids.
//
// # Rules
//
// A rule matches when it carries the needed permission and covers the token.
// The rule with the lowest priority number is asked first, and the first match
// decides. Plain permissions come after all rules. They work like rules on "/"
// with transform mask, except token:use, which has reveal.
//
// A rule on a container covers what is below it. A token in several containers
// needs the permission in each of them, each judged by itself, and gets the
// strictest of the transforms.
package access

// Transform says how much of a token's data is shown. Transforms are ordered:
// a larger one shows more.
type Transform uint8

// The transforms, strictest first. None is no access at all; a rule may not use
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

// UnmarshalText reads a transform's name. Unknown text gives None, not an
// error: None allows nothing, and [Check] rejects it with the path of the rule,
// which a decoder does not know.
func (t *Transform) UnmarshalText(text []byte) error {
	*t = None
	for i, name := range transformTexts {
		if name == string(text) {
			*t = Transform(i)
		}
	}
	return nil
}

// Attribute names what a condition looks at.
type Attribute string

// The attributes of a token that a condition can look at.
const (
	ID        Attribute = "id"
	Container Attribute = "container"
)

// Operator names how a condition compares.
type Operator string

// The comparisons. Both are byte for byte.
const (
	Equals     Operator = "equals"
	StartsWith Operator = "starts_with"
)

// Condition narrows a rule. The value of a container condition is a whole path,
// so starts_with "/pci/" covers "/pci/" and all below, and equals "/pci/" that
// one container.
type Condition struct {
	Attribute Attribute `json:"attribute"`
	Operator  Operator  `json:"operator"`
	Value     string    `json:"value"`
}

// Rule grants permissions on some tokens. It has either a container, and covers
// it and all below, or conditions, and covers the tokens that meet all of them.
// A rule whose conditions are all about ids covers every container.
type Rule struct {
	Description string      `json:"description,omitempty"`
	Priority    int         `json:"priority"`
	Container   string      `json:"container,omitempty"`
	Conditions  []Condition `json:"conditions,omitempty"`
	Transform   Transform   `json:"transform"`
	Permissions []string    `json:"permissions"`
}
