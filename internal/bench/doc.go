// Package bench measures what the vault costs on top of its databases. It is a
// benchmark and nothing else:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/bench
//
// Every figure is a ratio between contenders that take turns in short rounds of
// one run, so that whatever else the machine does falls on all of them. The
// opponent of the vault is a bare writer or reader: it hands the same sealed
// bytes, rows and log entries to the same driver, with the same durability and
// a grouping of concurrent callers that is at least as good, and does nothing else. It checks,
// seals and guards nothing, and its rows are made before the clock starts.
//
// Two figures have no goal, and an opponent with something that the usual one
// lacks. A bare writer on PostgreSQL that encodes arrays as the vault does,
// where the other uses those of the driver; and a bare reader on SQLite that
// maps the file, which only helps a program that never writes.
//
// At the end one table shows the figures beside their goals. With
// VAULT_BENCH_MILLION set, lists are measured on 1,000,000 tokens instead of
// 100,000; loading them takes minutes. Imports are of 1,000,000 rows unless
// VAULT_BENCH_ROWS says otherwise.
package bench
