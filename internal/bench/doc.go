// Package bench measures how much time the vault adds to its databases. Besides
// benchmarks it has a test that bounds allocations and statements of a call:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/bench
//
// Most figures compare contenders that take turns in short rounds of one run,
// so that other load on the machine affects all of them alike. The vault's
// opponent is a bare writer or reader. It gives the same sealed bytes, rows and
// log entries to the same driver, with the same durability. It groups
// concurrent callers at least as well as the vault. It checks and seals
// nothing, and its rows are prepared before the clock starts.
//
// Two figures without a goal use a stronger opponent. On PostgreSQL, a bare
// writer encodes arrays as the vault does, instead of using the driver's
// arrays. On SQLite, a bare reader maps the file, which helps only a program
// that never writes.
//
// At the end, a table shows the figures and their goals. With
// VAULT_BENCH_MILLION set, lists are measured with 1,000,000 tokens instead of
// 100,000; loading them takes minutes. BenchmarkGrowth also measures 10,000,000
// tokens if VAULT_BENCH_TEN_MILLION is set. Imports have 1,000,000 rows, or the
// number in VAULT_BENCH_ROWS.
package bench
