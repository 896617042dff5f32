package citus

import (
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sort"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/postgres/internal/link"
)

// Shards are the ranges of tenants of distributed tables, and the server of each
// range.
type Shards struct {
	first   []int32 // lowest hash of each shard, ascending
	server  []int32 // group number of the server of each shard
	servers int     // number of different servers
}

// of returns the number of the server of a tenant. It is zero if the tables are
// not distributed. The coordinator also has the number zero.
func (p *Shards) of(tenant storage.ID) int32 {
	if p == nil || len(p.first) == 0 {
		return 0
	}
	h := TenantHash(tenant)
	i := sort.Search(len(p.first), func(i int) bool { return p.first[i] > h })
	return p.server[max(i-1, 0)]
}

// shardsText reads the shards, and the server's hash of an id.
const shardsText = `SELECT s.shardminvalue::int, p.groupid, pg_catalog.worker_hash($1::bytea)
	FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement p USING (shardid)
	WHERE s.shardminvalue IS NOT NULL AND s.logicalrelid = `

// sampleTenant is an id to compare hashes by.
var sampleTenant = storage.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}

// ReadShards reads the shards of the anchor, which all other tables share. It
// returns no shards if the server hashes differently.
func ReadShards(ctx context.Context, on link.Queryer, schema *Schema) (*Shards, error) {
	rows, err := on.QueryContext(ctx, shardsText+pq.QuoteLiteral(schema.In(Anchor))+"::regclass ORDER BY 1", sampleTenant[:])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	p := &Shards{}
	for rows.Next() {
		var first, server, hash int32
		if err := rows.Scan(&first, &server, &hash); err != nil {
			return nil, err
		}
		if hash != TenantHash(sampleTenant) {
			return &Shards{}, nil
		}
		p.first, p.server = append(p.first, first), append(p.server, server)
	}
	different := slices.Clone(p.server)
	slices.Sort(different)
	p.servers = len(slices.Compact(different))
	return p, rows.Err()
}

// TenantHash is the hash by which Citus distributes tenants: PostgreSQL's hash of
// 16 bytes, which is the function lookup3 by Bob Jenkins.
func TenantHash(tenant storage.ID) int32 {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(tenant[4*i:]) }
	const seed = 0x9e3779b9 + uint32(len(storage.ID{})) + 3923095
	a, b, c := seed+word(0), seed+word(1), seed+word(2)
	for _, r := range [][3]int{{4, 6, 8}, {16, 19, 4}} {
		a = (a - c) ^ bits.RotateLeft32(c, r[0])
		c += b
		b = (b - a) ^ bits.RotateLeft32(a, r[1])
		a += c
		c = (c - b) ^ bits.RotateLeft32(b, r[2])
		b += a
	}
	a += word(3)
	for _, r := range [][3]int{{14, 11, 25}, {16, 4, 14}} {
		c = (c ^ b) - bits.RotateLeft32(b, r[0])
		a = (a ^ c) - bits.RotateLeft32(c, r[1])
		b = (b ^ a) - bits.RotateLeft32(a, r[2])
	}
	return int32((c ^ b) - bits.RotateLeft32(b, 24))
}
