package postgres

import (
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/statements"
)

// configure sets the settings of all sessions.
func (o *Options) configure(settings map[string]string) {
	// Every lookup has an index: see Plans of PostgreSQL in sqlstore.
	settings["enable_seqscan"], settings["enable_bitmapscan"] = "off", "off"
	// Statements are short. Starting parallel workers or compiling takes longer than
	// most of them. A server that overestimates the result of a list would do both:
	// the first page of a log of a million entries took 10 ms instead of 0.3 ms.
	settings["max_parallel_workers_per_gather"] = "0"
	settings["jit"] = "off"
	settings["lock_timeout"] = milliseconds(min(maxLockTimeout, o.HangTimeout/2))
	// A server that works on a statement for too long stops it. One that does not
	// even do that hangs, and only then may the statement be sent again.
	if settings["statement_timeout"] == "" {
		settings["statement_timeout"] = milliseconds(o.statementTimeout())
	}
}

// statementTimeout returns how long the server may work on a statement. The rest of
// HangTimeout is for the network.
func (o *Options) statementTimeout() time.Duration { return o.HangTimeout * 4 / 5 }

// reading returns the number of connections that read.
func (o *Options) reading() int { return o.MaxConns / 2 }

// reconnectReaders replaces the pool of the connections that read.
func (s *Store) reconnectReaders(config pq.Config, o Options) (err error) {
	if err := s.disconnect(); err != nil {
		return err
	}
	s.readers, err = link.NewPool(config, o.reading(), o.HangTimeout, s.hung)
	return err
}

// connectWriters creates the pools of the connections that write, and their
// writers.
func (s *Store) connectWriters(config pq.Config, o Options) (err error) {
	writing := o.MaxConns - o.reading()
	if writing > 1 && !o.TransactionPooler && s.layout.Traits().UnsyncedReads {
		writing--
		// Log entries of reads are half of the cost of GetToken. Not syncing
		// their commits makes it 40 % faster at 8 and 32 callers. A separate
		// connection makes it up to 53 % faster at 8 callers, with no effect at
		// 32 (BenchmarkGet).
		relaxed := config.Clone()
		relaxed.Runtime["synchronous_commit"] = "off"
		// Its statements look up rows by unique key, one row after the other. So
		// a custom plan is not worth its cost, and a sort means a wrong index.
		relaxed.Runtime["plan_cache_mode"] = "force_generic_plan"
		relaxed.Runtime["enable_sort"] = "off"
		if s.loggers, err = link.NewPool(relaxed, 1, o.HangTimeout, s.hung); err != nil {
			return err
		}
		s.queue.forLogs = &writer{
			Session: statements.Session{Unsynced: true}, pool: s.loggers, layout: s.layout, prepare: true, lockTimeout: lockTimeout,
		}
	}
	if !o.TransactionPooler {
		config = config.Clone()
		config.Runtime["lock_timeout"] = milliseconds(lockTimeout)
	}
	if s.writers, err = link.NewPool(config, writing, o.HangTimeout, s.hung); err != nil {
		return err
	}
	s.queue.flush, s.queue.pace = s.flush, s.layout.Traits().Pace
	shard := rand.Int64N(countShards) //nolint:gosec // spreads nodes over the shards
	for i := range int64(writing) {
		s.queue.free = append(s.queue.free, &writer{
			Session: statements.Session{Shard: (shard + i) % countShards},
			pool:    s.writers, layout: s.layout, prepare: !o.TransactionPooler, lockTimeout: lockTimeout,
		})
	}
	return nil
}

// pools returns the pools that exist, by name.
func (s *Store) pools() map[string]*link.Pool {
	all := map[string]*link.Pool{"readers": s.readers, "writers": s.writers, "loggers": s.loggers}
	maps.DeleteFunc(all, func(_ string, p *link.Pool) bool { return p == nil })
	return all
}

// disconnect closes the pools that exist.
func (s *Store) disconnect() error {
	var failed error
	for _, db := range s.pools() {
		if err := db.Close(); !link.Lost(err) { // a lost connection is already closed
			failed = errors.Join(failed, link.Clean(err))
		}
	}
	return failed
}

// hung closes all idle connections to the server that have received nothing since
// the given time.
func (s *Store) hung(since time.Time) {
	for _, p := range s.pools() {
		p.Lines.CutIdle(since)
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
