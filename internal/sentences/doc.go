// Package sentences lists every sentence that a user of the vault can see:
// errors, panics, log lines, details of REST responses, descriptions in
// openapi.json. They stand in testdata/sentences.txt, sorted by folder, so that
// a reviewer reads them in one place and sees in a diff what a change says
// differently. The tests keep the list complete and its words plain.
package sentences
