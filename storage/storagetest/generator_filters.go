package storagetest

import (
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// cond returns a condition with nesting up to a depth.
func (g *generator) cond(depth int) storage.Cond {
	if depth > 0 && g.IntN(2) == 0 {
		inner := func() storage.Cond { return g.cond(depth - 1) }
		switch g.IntN(3) {
		case 0:
			return storage.And(some(g, 3, inner))
		case 1:
			return storage.Or(some(g, 3, inner))
		default:
			return storage.Not{Cond: inner()}
		}
	}
	return g.term()
}

func (g *generator) inSets() storage.Cond {
	return storage.SetIn(some(g, 2, func() storage.Hash { return pick(g, sets).Set }))
}

func (g *generator) term() storage.Cond {
	switch g.IntN(9) {
	case 0:
		return g.inSets()
	case 1:
		return storage.TypeIn(some(g, 2, func() string { return pick(g, types) }))
	case 2:
		return storage.IDIn(some(g, 3, g.tokenID))
	case 3:
		return storage.IDPrefix(g.tokenID())
	case 4:
		return storage.HashIs(g.searchHash())
	case 5:
		return storage.FingerprintIs(keyOf(uint64(g.IntN(4))))
	case 6:
		return storage.ByIs{Field: pick(g, []storage.Field{storage.CreatedBy, storage.ModifiedBy}), ID: pick(g, g.actors)}
	case 7:
		return storage.KeyBelow(g.IntN(5))
	default:
		return storage.TimeIn{
			Field: pick(g, []storage.Field{storage.CreatedAt, storage.ModifiedAt}),
			From:  g.moment(), To: g.moment(), ExcludeFrom: g.IntN(2) == 0, ExcludeTo: g.IntN(2) == 0,
		}
	}
}

func (g *generator) tokenFilter(tenant storage.ID) storage.TokenFilter {
	f := storage.TokenFilter{Tenant: tenant, Now: g.moment(), Limit: g.IntN(30), Count: g.IntN(4) > 0}
	if g.IntN(3) == 0 {
		f.CountUpTo = 1 + g.IntN(12)
	}
	switch g.IntN(8) {
	case 0:
	case 1: // as rules restrict a search
		f.Where = storage.And{storage.Or{g.inSets(), g.term()}, pick(g, []storage.Cond{g.inSets(), g.term()})}
	default:
		f.Where = g.cond(4)
	}
	if g.IntN(3) == 0 {
		f.Offset = g.IntN(10)
	}
	if tokens := g.tokens(tenant); len(tokens) > 0 && g.IntN(3) == 0 {
		f.Before = pick(g, tokens).Ord
	}
	f.OldestFirst, f.MaxBytes = g.IntN(4) == 0, g.maxBytes()
	return f
}

// maxBytes returns a limit for the bytes of a page, or zero.
func (g *generator) maxBytes() int { return pick(g, []int{0, 0, 1 + g.IntN(200), 100_000}) }

func (g *generator) expiredFilter() storage.ExpiredFilter {
	place := func() (p storage.ExpiryPlace) {
		if p.Ordered = true; g.IntN(2) == 0 {
			p.From, p.Skip = g.around(), g.IntN(3)
		}
		return p
	}
	return storage.ExpiredFilter{Now: g.around(), Limit: g.limit(), Tokens: place(), CVCs: place(), Records: place()}
}

func (g *generator) recordFilter(tenant storage.ID) storage.RecordFilter {
	f := storage.RecordFilter{Tenant: tenant, Limit: g.IntN(10), Offset: g.IntN(3)}
	f.Kind = pick(g, []string{"", "proxy", "reactor"})
	if g.IntN(2) == 0 {
		f.Name = pick(g, []func(string) string{strings.ToUpper, strings.ToLower})(g.text()) + pick(g, []string{"", "*", "*b"})
	}
	rows := g.records(tenant)
	if len(rows) > 0 && g.IntN(3) == 0 {
		f.IDs = some(g, 6, func() storage.ID { return pick(g, rows).ID })
	}
	if len(rows) > 0 && g.IntN(4) == 0 {
		f.Before = pick(g, rows).ID
	}
	if g.IntN(6) == 0 {
		f.Tenant = storage.ID{}
	}
	f.MaxBytes = g.maxBytes()
	return f
}

func (g *generator) logFilter(tenant storage.ID) storage.LogFilter {
	f := storage.LogFilter{
		Tenant: tenant, EntityType: pick(g, append(types, "")), EntityID: pick(g, []string{"", "", g.tokenID()}),
		From: g.moment(), To: g.moment(), Offset: g.IntN(3), Limit: g.IntN(10),
	}
	if g.IntN(2) == 0 {
		f.From, f.To = g.day(), pick(g, []time.Time{{}, g.day()})
	}
	if g.IntN(3) == 0 {
		f.Operation, f.ActorType = pick(g, []string{"", "create", "read"}), pick(g, []string{"", "application", "user"})
	}
	if g.IntN(4) == 0 {
		f.ActorID = pick(g, g.actors)
	}
	if g.IntN(3) == 0 {
		f.CountUpTo = 1 + g.IntN(12)
	}
	if g.IntN(4) == 0 {
		f.Before = idAt(g.around(), uint64(g.IntN(100)))
	}
	return f
}

func (g *generator) jobFilter(tenant storage.ID) storage.JobFilter {
	f := storage.JobFilter{Tenant: tenant, Dead: g.IntN(2) == 0, Limit: g.IntN(10)}
	if jobs := g.jobs(tenant); len(jobs) > 0 {
		f.ID, f.Before = pick(g, []storage.ID{{}, {}, pick(g, jobs).ID}), pick(g, []storage.ID{{}, pick(g, jobs).ID})
	}
	return f
}

func (g *generator) sealedFilter(tenant storage.ID) storage.SealedFilter {
	f := storage.SealedFilter{Tenant: tenant, Kind: storage.SealedClaims, Limit: g.IntN(6), After: pick(g, []storage.Key{{}, g.claimKey()})}
	if jobs := g.jobs(tenant); len(jobs) > 0 && g.IntN(2) == 0 {
		f.Kind, f.After = storage.SealedJobs, pick(g, []storage.Key{{}, jobKey(pick(g, jobs).ID)})
	}
	return f
}

func (g *generator) duplicate() storage.Duplicate {
	return storage.Duplicate{
		Fingerprint: keyOf(uint64(g.IntN(4))), Expression: hashOf(uint64(g.IntN(2))),
		Except: pick(g, []string{"", g.tokenID()}), Now: g.moment(),
	}
}
