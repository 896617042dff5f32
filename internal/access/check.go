package access

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/seed-72ea4aab/vault/internal/form"
)

// Limits on grants and tokens.
const (
	maxContainers  = 10  // of a token
	maxPathLength  = 200 // of a container, in bytes
	maxSegments    = 20  // of a container
	maxRules       = 100 // of a grant
	maxConditions  = 10  // of a rule
	maxPermissions = 50  // in one list
	maxIDLength    = 400 // of a condition's value, in characters
	maxDescription = 500 // in characters
)

const pathRule = "must start and end with '/', must not contain '//', and may use only letters, digits, '_' and '-' between the slashes"

// cleanContainer returns a container path in its stored form, which is lower
// case. It reports false if the text is not a container path.
func cleanContainer(path string) (string, bool) {
	if len(path) == 0 || len(path) > maxPathLength || path[0] != '/' || path[len(path)-1] != '/' {
		return "", false
	}
	if strings.Contains(path, "//") || strings.Count(path, "/") > maxSegments+1 {
		return "", false
	}
	if strings.Trim(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/") != "" {
		return "", false
	}
	return strings.ToLower(path), true
}

// CheckContainers returns the containers of a token in their stored form:
// lower case, without duplicates, in the given order. Paths of problems start
// with "containers".
func CheckContainers(paths []string) (clean []string, problems map[string][]string) {
	bad := &form.Problems{}
	if len(paths) == 0 || len(paths) > maxContainers {
		bad.Add("containers", "must have 1 to %d containers", maxContainers)
		return nil, bad.Fields
	}
	for i, path := range paths {
		c, ok := cleanContainer(path)
		if !ok {
			containerPath(bad, fmt.Sprintf("containers[%d]", i), path)
		}
		if !slices.Contains(clean, c) {
			clean = append(clean, c)
		}
	}
	if bad.Any() {
		return nil, bad.Fields
	}
	return clean, nil
}

func containerPath(bad *form.Problems, field, path string) string {
	clean, ok := cleanContainer(path)
	switch {
	case ok:
	case len(path) > maxPathLength || strings.Count(path, "/") > maxSegments+1:
		bad.Add(field, "must have at most %d characters and %d segments", maxPathLength, maxSegments)
	default:
		bad.Add(field, pathRule)
	}
	return clean
}

// Check returns rules and plain permissions in their stored form, with
// container paths and destinations in lower case, for a key of the given kind.
// At least one of the two must not be empty. Loopback permits destinations that
// are addresses of loopback. Paths of problems start with "rules" or
// "permissions". Check does not change its arguments.
func Check(holder Holder, rules []Rule, permissions []string, loopback bool) ([]Rule, []string, map[string][]string) {
	bad := &form.Problems{}
	if len(rules) == 0 && len(permissions) == 0 {
		bad.Add("permissions", "permissions or rules must not be empty")
		return nil, nil, bad.Fields
	}
	if holder == Management && len(rules) > 0 {
		bad.Add("rules", "are not allowed for a management application")
		return nil, nil, bad.Fields
	}
	clean := checkRules(bad, rules, loopback)
	checkPermissions(bad, "permissions", permissions)
	if bad.Any() {
		return nil, nil, bad.Fields
	}
	checkHolder(bad, "permissions", holder, permissions)
	for i, r := range rules {
		checkHolder(bad, fmt.Sprintf("rules[%d].permissions", i), holder, r.Permissions)
	}
	if bad.Any() {
		return nil, nil, bad.Fields
	}
	return clean, slices.Clone(permissions), nil
}

func checkRules(bad *form.Problems, rules []Rule, loopback bool) []Rule {
	if len(rules) > maxRules {
		bad.Add("rules", "must be at most %d", maxRules)
		return nil
	}
	clean := slices.Clone(rules)
	priorities := map[int]bool{}
	for i := range clean {
		path := fmt.Sprintf("rules[%d]", i)
		checkRule(bad, path, &clean[i])
		checkDestinations(bad, path+".destinations", &clean[i], loopback)
		switch priority := clean[i].Priority; {
		case priority < 1:
			bad.Add(path+".priority", "must be at least 1")
		case priorities[priority]:
			bad.Add(path+".priority", "must not be the priority of another rule")
		}
		priorities[clean[i].Priority] = true
	}
	return clean
}

// checkRule checks one rule and normalizes its container paths.
func checkRule(bad *form.Problems, path string, r *Rule) {
	if !validText(r.Description, maxDescription) {
		bad.Add(path+".description", "must be at most %d characters long, in valid UTF-8 and without control characters", maxDescription)
	}
	if r.Transform == None || r.Transform > Reveal {
		bad.Add(path+".transform", "must be one of: reveal, mask, redact")
	}
	if len(r.Permissions) == 0 {
		bad.Add(path+".permissions", "must not be empty")
	}
	checkPermissions(bad, path+".permissions", r.Permissions)
	for i, permission := range r.Permissions {
		if position(permission) >= 0 && !OnTokens(permission) {
			bad.Add(fmt.Sprintf("%s.permissions[%d]", path, i), "must be a permission on tokens")
		}
	}
	r.Permissions = slices.Clone(r.Permissions)
	r.Conditions = slices.Clone(r.Conditions)
	switch {
	case r.Container != "" && len(r.Conditions) > 0:
		bad.Add(path+".container", "must be left out when there are conditions")
	case r.Container == "" && len(r.Conditions) == 0:
		bad.Add(path+".container", "a container or conditions are required")
	case r.Container != "":
		r.Container = containerPath(bad, path+".container", r.Container)
	default:
		checkConditions(bad, path+".conditions", r.Conditions)
	}
}

func checkConditions(bad *form.Problems, path string, conditions []Condition) {
	if len(conditions) > maxConditions {
		bad.Add(path, "must be at most %d", maxConditions)
		return
	}
	for i := range conditions {
		c, path := &conditions[i], fmt.Sprintf("%s[%d]", path, i)
		if c.Operator != Equals && c.Operator != StartsWith {
			bad.Add(path+".operator", "must be one of: equals, starts_with")
		}
		switch c.Attribute {
		case Container:
			c.Value = containerPath(bad, path+".value", c.Value)
		case ID:
			if c.Value == "" || !validText(c.Value, maxIDLength) {
				bad.Add(path+".value", "must be 1 to %d characters long, in valid UTF-8 and without control characters", maxIDLength)
			}
		default:
			bad.Add(path+".attribute", "must be one of: id, container")
		}
	}
}

func validText(s string, most int) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= most && !strings.ContainsFunc(s, unicode.IsControl)
}

func checkPermissions(bad *form.Problems, path string, permissions []string) {
	if len(permissions) > maxPermissions {
		bad.Add(path, "must be at most %d", maxPermissions)
		return
	}
	for i, permission := range permissions {
		field := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case position(permission) < 0:
			bad.Add(field, "must be a known permission, such as token:read")
		case slices.Contains(permissions[:i], permission):
			bad.Add(field, "must not be repeated")
		}
	}
}

func checkHolder(bad *form.Problems, path string, holder Holder, permissions []string) {
	for i, permission := range permissions {
		if !holder.MayHold(permission) {
			bad.Add(fmt.Sprintf("%s[%d]", path, i), "cannot be held by a %s key", holder)
		}
	}
}
