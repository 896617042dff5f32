package vaultsql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Column is a column of a table that holds token ids, as they are written in SQL.
// Both are part of a statement, so never take them from a request.
type Column struct{ Table, Name string }

// Queryer runs queries. [sql.DB], [sql.Tx] and every [vault.Tx] are Queryers.
type Queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// UnusedParams selects the tokens that [Unused] compares with tables.
type UnusedParams struct {
	// Tokens selects the tokens, for example
	// vault.SearchTokensParams{Query: "metadata.field:customers.name"}. It is
	// required, because other programs may have tokens of the same tenant.
	Tokens vault.TokenSelection
	// Columns are all columns that may hold the tokens. A column that is left out
	// makes its tokens unused.
	Columns []Column
	// OlderThan leaves out tokens that were created less than this long ago, because
	// the transaction with their row may still be open. Default: one hour.
	OlderThan time.Duration
	// Reason erases the unused tokens with this reason. If it is empty, Unused only
	// finds them.
	Reason string
}

// Unused finds tokens that no row uses, and returns their ids. Call it without a
// Reason first and look at the result; with a Reason it also erases the tokens
// (permission token:delete). It reads the tokens in batches of 100 and asks the
// database for the rows of each batch.
//
// A new row of a dedup field may get an old token, whose age protects nothing. Erase
// the tokens of such fields only while no rows are written.
//
//	ids, err := vaultsql.Unused(ctx, c, db, vaultsql.UnusedParams{
//		Tokens:  vault.SearchTokensParams{Query: "metadata.field:Customer.Name"},
//		Columns: []vaultsql.Column{{"customers", "name"}},
//	})
func Unused(ctx context.Context, c API, db Queryer, p UnusedParams) ([]string, error) {
	if p.Tokens == nil || len(p.Columns) == 0 {
		return nil, errors.New("vaultsql: unused: the tokens and the columns that may hold them must be named")
	}
	if p.OlderThan == 0 {
		p.OlderThan = time.Hour
	}
	now, err := c.Now(ctx)
	if err != nil {
		return nil, fmt.Errorf("vaultsql: unused: %w", err)
	}
	var unused, batch []string
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		left, err := p.without(ctx, db, batch)
		if err == nil && p.Reason != "" && len(left) > 0 {
			_, err = eraseTokens(ctx, c, p.Reason, left)
		}
		if err != nil {
			return fmt.Errorf("vaultsql: unused: %w", err)
		}
		unused, batch = append(unused, left...), nil
		return nil
	}
	for tok, err := range c.AllTokens(ctx, p.Tokens) {
		if err != nil {
			return unused, fmt.Errorf("vaultsql: unused: %w", err)
		}
		if tok.CreatedAt.Add(p.OlderThan).After(now) {
			continue
		}
		if batch = append(batch, tok.ID); len(batch) == batchSize {
			if err := flush(); err != nil {
				return unused, err
			}
		}
	}
	err = flush()
	return unused, err
}

// without leaves out the ids that are in a column.
func (p *UnusedParams) without(ctx context.Context, db Queryer, ids []string) ([]string, error) {
	left := ids
	for _, column := range p.Columns {
		if len(left) == 0 {
			return nil, nil
		}
		used, err := column.holds(ctx, db, left)
		if err != nil {
			return nil, err
		}
		left = slices.DeleteFunc(slices.Clone(left), func(id string) bool { return used[id] })
	}
	return left, nil
}

// holds returns which ids are in the column.
func (c Column) holds(ctx context.Context, db Queryer, ids []string) (map[string]bool, error) {
	marks, args := make([]string, len(ids)), make([]any, len(ids))
	for i, id := range ids {
		marks[i], args[i] = fmt.Sprint("$", i+1), id
	}
	rows, err := db.QueryContext(ctx, "SELECT "+c.Name+" FROM "+c.Table+" WHERE "+c.Name+" IN ("+strings.Join(marks, ", ")+")", args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // rows.Err reports errors
	used := map[string]bool{}
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return nil, err
		}
		used[id] = true
	}
	return used, rows.Err()
}
