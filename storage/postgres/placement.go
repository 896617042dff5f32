package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"sort"
	"strconv"

	"github.com/lib/pq"

	"github.com/seed-72ea4aab/vault/storage"
)

// shards are the ranges of tenants of distributed tables, and the server of each
// range.
type shards struct {
	first   []int32 // lowest hash of each shard, ascending
	server  []int32 // group number of the server of each shard
	servers int     // number of different servers
}

// of returns the number of the server of a tenant. It is zero if the tables are
// not distributed. The coordinator also has the number zero.
func (p *shards) of(tenant storage.ID) int32 {
	if p == nil || len(p.first) == 0 {
		return 0
	}
	return p.server[p.index(tenant)]
}

// index returns the index of the shard of a tenant.
func (p *shards) index(tenant storage.ID) int {
	h := tenantHash(tenant)
	i := sort.Search(len(p.first), func(i int) bool { return p.first[i] > h })
	return max(i-1, 0)
}

// shardsText reads the shards, and the server's hash of an id.
const shardsText = `SELECT s.shardminvalue::int, p.groupid, pg_catalog.worker_hash($1::bytea)
	FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_dist_placement p USING (shardid)
	WHERE s.shardminvalue IS NOT NULL AND s.logicalrelid = `

// sampleTenant is an id to compare hashes by.
var sampleTenant = storage.ID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 255}

// readShards reads the shards of the anchor, which all other tables share. It
// returns no shards if the server hashes differently.
func readShards(ctx context.Context, on rowsQueryer, schema schemaName) (*shards, error) {
	rows, err := on.QueryContext(ctx, shardsText+pq.QuoteLiteral(schema.in(anchor))+"::regclass ORDER BY 1", sampleTenant[:])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	p := &shards{}
	for rows.Next() {
		var first, server, hash int32
		if err := rows.Scan(&first, &server, &hash); err != nil {
			return nil, err
		}
		if hash != tenantHash(sampleTenant) {
			return &shards{}, nil
		}
		p.first, p.server = append(p.first, first), append(p.server, server)
	}
	different := slices.Clone(p.server)
	slices.Sort(different)
	p.servers = len(slices.Compact(different))
	return p, rows.Err()
}

// tenantHash is the hash by which Citus distributes tenants: PostgreSQL's hash of
// 16 bytes, which is the function lookup3 by Bob Jenkins.
func tenantHash(tenant storage.ID) int32 {
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

// shardTables are the tables of each shard, and the addresses of the servers.
type shardTables struct {
	shards
	tables  []*shardNames
	address map[int32]address
}

// anchors returns the ids of the anchor's shards in ascending order.
func (t *shardTables) anchors() []int64 {
	ids := make([]int64, len(t.tables))
	for i, n := range t.tables {
		ids[i] = n.id
	}
	slices.Sort(ids)
	return ids
}

// shardNames are the names of the tables of a shard.
type shardNames struct {
	id     int64 // of the anchor's shard, which keeps it when it moves
	schema schemaName
	suffix map[string]string // by table
}

var tableName = regexp.MustCompile(`\bvault_[a-z_]+`)

// in returns a statement with the tables of the shard. Other tables get a name that
// does not exist.
func (n *shardNames) in(statement string) string {
	return tableName.ReplaceAllStringFunc(statement, func(table string) string {
		suffix, ok := n.suffix[table]
		if !ok {
			suffix = "_none"
		}
		return string(n.schema) + table + suffix
	})
}

// shardTablesText reads the shards of some tables in the order of their tenants,
// the shards of the anchor first.
const shardTablesText = `SELECT c.relname, s.shardminvalue::int, s.shardid, p.groupid, n.nodename, n.nodeport
	FROM pg_catalog.pg_dist_shard s JOIN pg_catalog.pg_class c ON c.oid = s.logicalrelid
	JOIN pg_catalog.pg_dist_placement p USING (shardid)
	JOIN pg_catalog.pg_dist_node n ON n.groupid = p.groupid AND n.noderole = 'primary'
	WHERE s.logicalrelid = ANY ($1::regclass[]) ORDER BY s.shardminvalue::int, c.relname <> $2`

// readShardTables reads where the shards of some tables are. The tables have shards
// for the same tenants on the same servers.
func readShardTables(ctx context.Context, on rowsQueryer, schema schemaName, tables []string) (*shardTables, error) {
	t := &shardTables{address: map[int32]address{}}
	names := make(pq.StringArray, len(tables))
	for i, table := range tables {
		names[i] = schema.in(table)
	}
	rows, err := on.QueryContext(ctx, shardTablesText, names, anchor)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var s shardTable
		if err := rows.Scan(&s.table, &s.first, &s.id, &s.server, &s.at.host, &s.at.port); err != nil {
			return nil, err
		}
		if err := t.add(schema, &s); err != nil {
			return nil, err
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(t.tables) == 0 {
		return nil, errThroughCoordinator // the vault is not distributed
	}
	for _, n := range t.tables {
		if len(n.suffix) != len(tables) {
			return nil, errShardsChanged
		}
	}
	return t, nil
}

// shardTable is a table of a shard.
type shardTable struct {
	table         string
	first, server int32
	id            int64
	at            address
}

// add adds a table. The anchor of its shard comes first.
func (t *shardTables) add(schema schemaName, s *shardTable) error {
	if s.table == anchor {
		t.first, t.server = append(t.first, s.first), append(t.server, s.server)
		t.tables = append(t.tables, &shardNames{id: s.id, schema: schema, suffix: map[string]string{}})
		t.address[s.server] = s.at
	}
	last := len(t.tables) - 1
	if last < 0 || t.first[last] != s.first || t.server[last] != s.server || t.tables[last].suffix[s.table] != "" {
		return fmt.Errorf("%w: the shards of %s are not those of %s", errShardsChanged, s.table, anchor)
	}
	t.tables[last].suffix[s.table] = "_" + strconv.FormatInt(s.id, 10)
	return nil
}
