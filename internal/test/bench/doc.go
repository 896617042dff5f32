// Package bench measures how much time the vault adds to its databases. Besides
// benchmarks it has a test that bounds allocations and statements of a call:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/test/bench
//
// Most figures compare contenders that take turns in short rounds of one run,
// so that other load on the machine affects all of them alike. The vault's
// opponent is a bare writer or reader. It gives the same sealed bytes, rows and
// log entries to the same driver, with the same durability. It groups
// concurrent callers at least as well as the vault. It checks and seals
// nothing, and its rows are prepared before the clock starts.
//
// At the end, a table shows the figures and their goals. BenchmarkGrowth
// measures lists with 10,000 tokens. With VAULT_BENCH_MILLION set it also
// measures 1,000,000, which takes minutes to load, and with
// VAULT_BENCH_TEN_MILLION 10,000,000. Imports have 1,000,000 rows, or the number
// in VAULT_BENCH_ROWS.
package bench
