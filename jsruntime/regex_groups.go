package jsruntime

import (
	"errors"
	"strings"
	"unicode"
)

var (
	errGroup     = errors.New("Invalid regular expression: Invalid group")                    //nolint:staticcheck // as Node words it
	errGroupName = errors.New("Invalid regular expression: Invalid capture group name")       //nolint:staticcheck // as Node words it
	errSameName  = errors.New("Invalid regular expression: Duplicate capture group name")     //nolint:staticcheck // as Node words it
	errReference = errors.New("Invalid regular expression: Invalid named reference")          //nolint:staticcheck // as Node words it
	errNoGroup   = errors.New("Invalid regular expression: Invalid named capture referenced") //nolint:staticcheck // as Node words it
)

// checkGroups refuses groups that JavaScript does not have. goja's engines know
// more kinds than that, such as (?i-s:...), and would run them.
func checkGroups(pattern string, unicodeFlag bool) error {
	names := map[string]bool{}
	var references []string // what follows each \k
	class := false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
			if i < len(pattern) && pattern[i] == 'k' && !class {
				references = append(references, pattern[i+1:])
			}
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '(':
			if err := checkGroup(pattern[i+1:], names); err != nil {
				return err
			}
		}
	}
	if len(names) == 0 && !unicodeFlag {
		return nil // \k is the letter k
	}
	return checkReferences(references, names)
}

// checkGroup looks at what follows an opening parenthesis, and adds the name of
// the group, if it has one.
func checkGroup(rest string, names map[string]bool) error {
	rest, special := strings.CutPrefix(rest, "?")
	switch {
	case !special, hasAnyPrefix(rest, ":", "=", "!", "<=", "<!"):
		return nil
	case !strings.HasPrefix(rest, "<"):
		return errGroup
	}
	name, _, closed := strings.Cut(rest[1:], ">")
	switch {
	case !closed || !isGroupName(name):
		return errGroupName
	case names[name]:
		return errSameName
	}
	names[name] = true
	return nil
}

// checkReferences looks for the groups that references name.
func checkReferences(references []string, names map[string]bool) error {
	for _, rest := range references {
		name, _, closed := strings.Cut(rest, ">")
		name, opened := strings.CutPrefix(name, "<")
		switch {
		case !closed || !opened:
			return errReference
		case !names[name] && !strings.Contains(name, `\`):
			return errNoGroup
		}
	}
	return nil
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return false
}

// isGroupName tells whether a name is an identifier. One with escapes is left to
// the engine.
func isGroupName(name string) bool {
	if strings.Contains(name, `\`) {
		return true
	}
	for i, r := range name {
		start := r == '$' || r == '_' || unicode.In(r, unicode.L, unicode.Nl, unicode.Other_ID_Start)
		if !start && (i == 0 || r != '\u200c' && r != '\u200d' && !unicode.In(r, unicode.Mn, unicode.Mc, unicode.Nd, unicode.Pc, unicode.Other_ID_Continue)) {
			return false
		}
	}
	return name != ""
}
