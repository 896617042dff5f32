package sqlstore

// Plans of PostgreSQL
//
// Every statement of the vault has an index that finds its rows in the order in which it
// needs them, so its work depends on what it returns. SQLite, without statistics, takes
// that index. PostgreSQL chooses by statistics, which ANALYZE made when the tenant was
// small, or had no rows, and it keeps plans. It has no hints either, so these take their
// place. Each prevents one kind of plan, with statistics of any age:
//
//   - The settings enable_seqscan and enable_bitmapscan are off. The first prevents a
//     scan of a whole table, which is planned while the table is empty and kept. The
//     second prevents a bitmap of all entries of an index for a list that needs twenty.
//   - The setting enable_sort is off in the session that writes log entries of reads,
//     whose statements look up one row after the other. It does for them what InOrder
//     does for others.
//   - InOrder prevents that all rows of a tenant are read by another index and sorted.
//   - clause.some prevents the same sort under a filter that is expected to be rare: it
//     makes the filter an inequality, which nearly all rows are expected to meet.
//   - clause.hidden prevents that an index on the filter drives a list, so that all rows
//     of the filter are read before the first row of the page.
//   - statements.Statement.At, with ctid = ANY and OFFSET 0, prevents a join by a part
//     of the key, which reads all rows of the tenant for each row of a list. OFFSET 0
//     keeps the subquery from becoming such a join, also in the checks of a change.
//   - Composer.TenantIs, with || ''::bytea, prevents that a row whose ctid is known is
//     looked up by the tenant instead.
//   - statements.FirstFrom prevents that a unique key is looked up in another index, of
//     which the planner expects fewer pages: a range with a LIMIT must be in order.
//
// TestBlocksTouched of storage/postgres counts the blocks that each statement reads in a
// tenant of 14,000 rows of each kind, analyzed before the tenant was there, when it was
// empty, and never. TestRowsTouched counts the rows of lists. They fail without the hints,
// with two exceptions: no test of the short run needs clause.some, and none needs OFFSET 0
// in the check of the holds of a group, because a test cannot choose which changes share a
// group.

// InOrder makes PostgreSQL read the rows of a query with ORDER BY and a small LIMIT
// in the order of an index. It is a column of the query, or joins its table.
//
// Several indexes of a table start with the tenant. If ANALYZE has not seen a
// tenant, PostgreSQL expects a single row of it. It may then use a wrong index, read
// all rows of the tenant and sort them, because the right index has one level more.
// InOrder is one row, but PostgreSQL expects a thousand of them for each row of the
// table. So it avoids the sort, which has to end before the first row.
const InOrder = `pg_catalog.generate_subscripts(ARRAY[1], 1)`

// inOrder returns the join of a table with InOrder, for PostgreSQL.
func (s *Store) inOrder() string {
	if s.dialect.Lateral {
		return `, ` + InOrder
	}
	return ``
}
