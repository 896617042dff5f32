// Package faults holds the tests of what a vault promises when things go
// wrong: that an acknowledged write survives a killed process and an outage of
// the database, that callers are told what happens meanwhile, and that no value
// reaches a file, an error or a log. It has no code of its own.
package faults
