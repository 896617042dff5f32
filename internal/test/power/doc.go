// Package power has a test of power failures: it drops what SQLite has written and not
// synced.
package power
