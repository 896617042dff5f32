package seal

import "slices"

// recordKinds are the kinds of records that the program's packages have declared.
var recordKinds []string

// RecordKind declares a kind of records, and returns its name. Every kind that is
// stored must be declared, in the declarations of its package: the table of what
// protects each kind, in docs/security.md, has a row for each.
func RecordKind(name string) string {
	if !slices.Contains(recordKinds, name) {
		recordKinds = append(recordKinds, name)
	}
	return name
}

// RecordKinds returns the kinds of records, in the order of their names.
func RecordKinds() []string { return slices.Sorted(slices.Values(recordKinds)) }
