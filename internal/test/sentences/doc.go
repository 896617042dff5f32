// Package sentences lists every sentence that a user of the vault can see:
// errors, panics, log lines, details of REST responses, descriptions in
// openapi.json. The list is testdata/sentences.txt, sorted by folder. A
// reviewer can read all sentences in one place, and a diff shows how a change
// affects them. The tests keep the list complete and its words plain.
package sentences
