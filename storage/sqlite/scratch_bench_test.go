package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/storage"
)

func nid() storage.ID { return storage.ID(uuid.Must(uuid.NewV7())) }

func benchToken(now time.Time) storage.Token {
	var t storage.Token
	t.Ord = nid()
	t.ID = uuid.UUID(nid()).String()
	t.Type = "card"
	t.Set = storage.Hash{1}
	t.Containers = []string{"/pci/high/"}
	rand.Read(t.Fingerprint[:])
	t.Expression = storage.Hash{2}
	t.Hashes = make([]storage.Hash, 2)
	rand.Read(t.Hashes[0][:])
	rand.Read(t.Hashes[1][:])
	t.KeyVersion = 1
	t.Body = make([]byte, 400)
	rand.Read(t.Body)
	t.CreatedBy = storage.ID{7}
	t.CreatedAt = now
	return t
}

func benchChange(tenant storage.ID) *storage.Change {
	now := time.Now()
	t := benchToken(now)
	return &storage.Change{Tenant: tenant, Now: now, InsertTokens: []storage.Token{t}, Logs: []storage.Log{benchLog(now, t.ID)}}
}

func benchLog(now time.Time, id string) storage.Log {
	return storage.Log{ID: nid(), ActorID: storage.ID{7}, ActorType: "application", EntityType: "card", EntityID: id, Operation: "read", Message: "Token read", CreatedAt: now}
}

// bare: dedicated goroutine, channel, same rows.
type bareCall struct {
	c    *storage.Change
	done chan error
}
type bare struct {
	ch        chan *bareCall
	w         *writer
	wg        sync.WaitGroup
	st        map[string]*sql.Stmt
	cnt, lcnt bool
}

func (b *bare) ex(q string, a ...any) {
	st := b.st[q]
	if st == nil {
		var err error
		if st, err = b.w.conn.PrepareContext(background, q); err != nil {
			panic(err)
		}
		b.st[q] = st
	}
	if _, err := st.ExecContext(background, a...); err != nil {
		panic(err)
	}
}

func (b *bare) loop() {
	defer b.wg.Done()
	for first := range b.ch {
		group := []*bareCall{first}
	fill:
		for len(group) < 512 {
			select {
			case c := <-b.ch:
				if c == nil {
					break fill
				}
				group = append(group, c)
			default:
				break fill
			}
		}
		b.ex("BEGIN IMMEDIATE")
		nt, nl := 0, 0
		for _, g := range group {
			c := g.c
			for i := range c.InsertTokens {
				t := &c.InsertTokens[i]
				b.ex(statementText[stmtInsertToken], c.Tenant[:], t.Ord[:], t.ID, t.Type, t.Set[:], t.Containers[0],
					nil, nil, t.KeyVersion, t.Rev, t.CreatedBy[:], t.CreatedAt.UnixMicro(), nil, nil,
					t.Fingerprint[:], t.Expression[:], nil, joinHashes(t.Hashes), nil, t.Body)
				for j := range t.Hashes {
					b.ex(statementText[stmtInsertHash], c.Tenant[:], t.Hashes[j][:], t.Ord[:])
				}
				nt++
			}
			for i := range c.Logs {
				l := &c.Logs[i]
				b.ex(statementText[stmtInsertLog], c.Tenant[:], l.ID[:], l.CreatedAt.UnixMicro(), l.ActorID[:],
					l.ActorType, l.EntityType, l.EntityID, l.Operation, l.Message)
				nl++
			}
		}
		c := group[0].c
		if nt > 0 && b.cnt {
			b.ex(statementText[stmtCountTokens], c.Tenant[:], c.InsertTokens[0].Set[:], "card", nt)
		}
		if b.lcnt {
			b.ex(statementText[stmtCountLogs], c.Tenant[:], "card", nl)
		}
		b.ex("COMMIT")
		for _, g := range group {
			g.done <- nil
		}
	}
	for _, s := range b.st {
		s.Close()
	}
}

func openBare(tb testing.TB, dir string) *bare {
	f, err := locate(filepath.Join(dir, "bare.db"))
	if err != nil {
		tb.Fatal(err)
	}
	w, err := openWriter(context.Background(), f)
	if err != nil {
		tb.Fatal(err)
	}
	b := &bare{ch: make(chan *bareCall, 512), w: w, st: map[string]*sql.Stmt{}, cnt: true, lcnt: true}
	b.wg.Add(1)
	go b.loop()
	return b
}

func run(callers, each int, f func()) float64 {
	var wg sync.WaitGroup
	start := time.Now()
	for range callers {
		wg.Go(func() {
			for range each {
				f()
			}
		})
	}
	wg.Wait()
	return float64(callers*each) / time.Since(start).Seconds()
}

// alternate runs fs in turn, in short slices, and returns each one's rate.
func alternate(rounds int, slice time.Duration, callers int, fs ...func()) []float64 {
	n := make([]float64, len(fs))
	tt := make([]float64, len(fs))
	for range rounds {
		for i, f := range fs {
			var wg sync.WaitGroup
			start := time.Now()
			var ops atomic.Int64
			for range callers {
				wg.Go(func() {
					k := 0
					for time.Since(start) < slice {
						f()
						k++
					}
					ops.Add(int64(k))
				})
			}
			wg.Wait()
			n[i] += float64(ops.Load())
			tt[i] += time.Since(start).Seconds()
		}
	}
	for i := range n {
		n[i] /= tt[i]
	}
	return n
}

func TestScratchBench(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(context.Background(), filepath.Join(dir, "ours.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	b := openBare(t, dir)
	defer func() { close(b.ch); b.wg.Wait(); b.w.close() }()
	tenant := nid()
	ours := func() {
		if err := s.Write(context.Background(), benchChange(tenant)); err != nil {
			panic(err)
		}
	}
	bareWrite := func() {
		c := &bareCall{benchChange(tenant), make(chan error, 1)}
		b.ch <- c
		<-c.done
	}
	for _, callers := range []int{1, 8, 32, 128} {
		r := alternate(30, 100*time.Millisecond, callers, ours, bareWrite)
		fmt.Printf("create %3d callers: ours %.0f/s bare %.0f/s ratio %.2f\n", callers, r[0], r[1], r[0]/r[1])
	}
}

func TestScratchRead(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(context.Background(), filepath.Join(dir, "ours.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tenant := nid()
	var ids []string
	for range 20 {
		c := &storage.Change{Tenant: tenant, Now: time.Now()}
		for range 1000 {
			tok := benchToken(time.Now())
			ids = append(ids, tok.ID)
			c.InsertTokens = append(c.InsertTokens, tok)
		}
		if err := s.Write(context.Background(), c); err != nil {
			t.Fatal(err)
		}
	}
	f := file{path: filepath.Join(dir, "ours.db"), uri: "file://" + filepath.Join(dir, "ours.db") + "?"}
	rdb, err := openReaders(context.Background(), f)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	st, err := rdb.DB.Prepare(`SELECT t.ord, t.id, t.type, t.set_id, t.containers, t.fingerprint, t.expression, t.dedup,
	t.key_version, t.body, t.cvc, t.cvc_expires_at, t.expires_at,
	t.created_by, t.created_at, t.modified_by, t.modified_at, t.rev FROM tokens t WHERE tenant_id = ? AND id = ?`)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var n int
	pick := func() string { n = (n*7919 + 13) % len(ids); return ids[n] }
	var mu sync.Mutex
	next := func() string { mu.Lock(); defer mu.Unlock(); return pick() }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ours := func() {
		if got, err := s.Tokens(ctx, tenant, []string{next()}); err != nil || len(got) != 1 {
			panic(err)
		}
	}
	bareRead := func() {
		var ord, set, fp, ex, dd, body, cvc, cb, mb []byte
		var id, ty, cont string
		var kv, rev, ca int64
		var ce, ea, ma sql.NullInt64
		if err := st.QueryRow(tenant[:], next()).Scan(&ord, &id, &ty, &set, &cont, &fp, &ex, &dd, &kv, &body, &cvc, &ce, &ea, &cb, &ca, &mb, &ma, &rev); err != nil {
			panic(err)
		}
	}
	withLog := func() {
		id := next()
		if got, err := s.Tokens(ctx, tenant, []string{id}); err != nil || len(got) != 1 {
			panic(err)
		}
		now := time.Now()
		if err := s.Write(ctx, &storage.Change{Tenant: tenant, Now: now, Relaxed: true, Logs: []storage.Log{benchLog(now, id)}}); err != nil {
			panic(err)
		}
	}
	for _, callers := range []int{1, 8, 32, 128} {
		r := alternate(20, 100*time.Millisecond, callers, ours, bareRead, withLog)
		fmt.Printf("read %3d callers: ours %.0f/s bare %.0f/s cost %.2f; with log %.0f/s ratio %.2f\n", callers, r[0], r[1], r[1]/r[0], r[2], r[2]/r[1])
	}
}
