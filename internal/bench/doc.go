// Package bench measures what the vault costs on top of its databases. It is a
// benchmark and nothing else:
//
//	go test -run '^$' -bench . -benchtime 1x ./internal/bench
//
// Every figure is a ratio between contenders that take turns in short rounds of
// one run, so that whatever else the machine does falls on all of them. The
// opponent of the vault is a bare writer or reader: it hands the same sealed
// bytes, rows and log entries to the same driver, with the same durability and
// the same grouping of concurrent callers, and does nothing else. It checks,
// seals and guards nothing, and its rows are made before the clock starts. On
// PostgreSQL it sends a group as arrays of the driver; the figure without a goal
// is against one that encodes them as the vault does.
//
// At the end one table shows the figures beside their goals. With
// VAULT_BENCH_MILLION set, lists are measured on 1,000,000 tokens instead of
// 100,000; loading them takes minutes.
package bench
