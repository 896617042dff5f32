package sqlstore

import (
	"context"
	"slices"

	"github.com/seed-72ea4aab/vault/storage"
	"github.com/seed-72ea4aab/vault/storage/internal/direct"
)

// TokenColumns are the columns of a token t that [ScanToken] reads.
var TokenColumns = TokenRow.Without("hashes").Names("t.")

const (
	tokenByID = `vault_tokens t WHERE t.tenant_id = ? AND t.id = ?`

	// tokenInOrder is tokenByID on PostgreSQL, with the id twice.
	tokenInOrder = `vault_tokens t, ` + InOrder + ` WHERE t.tenant_id = ? AND t.id >= ? AND t.id <= ? ORDER BY t.id LIMIT 1`

	duplicateOf = `vault_tokens t
		WHERE t.tenant_id = ? AND t.fingerprint = ? AND t.expression = ? AND t.id <> ?
		AND (t.expires_at IS NULL OR t.expires_at > ?)
		ORDER BY t.ord LIMIT 1`

	// duplicateInOrder is duplicateOf on PostgreSQL, with the fingerprint twice.
	duplicateInOrder = `vault_tokens t, ` + InOrder + `
		WHERE t.tenant_id = ? AND t.fingerprint >= ? AND t.fingerprint <= ? AND t.expression = ? AND t.id <> ?
		AND (t.expires_at IS NULL OR t.expires_at > ?)
		ORDER BY t.fingerprint, t.ord LIMIT 1`
)

// idsAtOnce limits the ids in one query.
const idsAtOnce = 1000

// tokenDest returns the destinations for scanning TokenColumns. It returns an
// array, which needs no allocation for a single token.
func tokenDest(t *storage.Token) [18]Field {
	return [...]Field{
		{&t.Ord}, {&t.ID}, {&t.Type}, {&t.Set}, {&t.Containers}, {&t.Fingerprint}, {&t.Expression}, {&t.Dedup},
		{&t.KeyVersion}, {&t.Body}, {&t.CVC}, {&t.CVCExpiresAt}, {&t.ExpiresAt},
		{&t.CreatedBy}, {&t.CreatedAt}, {&t.ModifiedBy}, {&t.ModifiedAt}, {&t.Rev},
	}
}

// ScanToken reads a token from a row of a driver. It does not set the tenant.
func ScanToken(row direct.Row, t *storage.Token) error {
	dest := tokenDest(t)
	return Scan(row, dest[:])
}

// Tokens implements [storage.TokenReader].
func (s *Store) Tokens(ctx context.Context, tenant storage.ID, ids []string) ([]storage.Token, error) {
	ctx = s.of(ctx, tenant)
	if len(ids) == 1 {
		return s.token(ctx, tenant, ids[0])
	}
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	found := make([]storage.Token, 0, len(ids))
	for chunk := range slices.Chunk(distinct(ids), idsAtOnce) {
		from := s.tokensByID(tenant, chunk)
		var err error
		if found, err = s.tokens(ctx, found, tenant, 0, `SELECT `+TokenColumns+` FROM `+from.text, from.args); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// tokensByID returns the tokens t with these ids, of which there is at least
// one. See [InOrder] for the reason to look for each of them in the order of an
// index.
func (s *Store) tokensByID(tenant storage.ID, ids []string) clause {
	in, args := s.dialect.In("t.id", anys(distinct(ids)))
	if !s.dialect.Lateral {
		return clause{`vault_tokens t WHERE t.tenant_id = ? AND ` + in, append([]any{s.dialect.ID(tenant)}, args...)}
	}
	return clause{`pg_catalog.unnest(?::text[]) AS w(id) CROSS JOIN LATERAL (
		SELECT *, ` + InOrder + ` FROM vault_tokens k WHERE k.tenant_id = ? AND k.id >= w.id ORDER BY k.id LIMIT 1) t WHERE t.id = w.id`,
		append(args, s.dialect.ID(tenant))}
}

func (s *Store) token(ctx context.Context, tenant storage.ID, id string) ([]storage.Token, error) {
	found := make([]storage.Token, 1)
	scan := func(row direct.Row) error { return ScanToken(row, &found[0]) }
	args := []any{s.dialect.ID(tenant), id}
	if s.dialect.Lateral {
		args = append(args, id)
	}
	ok, err := s.one(ctx, pointTokenByID, scan, args...)
	if err != nil || !ok {
		return nil, err
	}
	found[0].Tenant = tenant
	return found, nil
}

// tokens appends the results of a query for TokenColumns of one tenant, up to
// maxBytes if that is not zero.
func (s *Store) tokens(ctx context.Context, found []storage.Token, tenant storage.ID, maxBytes int, query string, args []any) ([]storage.Token, error) {
	t := storage.Token{Tenant: tenant}
	dest := tokenDest(&t)
	return readRows(ctx, s, found, maxBytes, clause{query, args}, &t, dest[:], sealedBytes)
}

// sealedBytes returns the size of the sealed parts of a token.
func sealedBytes(t *storage.Token) int { return len(t.Body) + len(t.CVC) }

// Duplicate implements [storage.TokenReader].
func (s *Store) Duplicate(ctx context.Context, tenant storage.ID, d storage.Duplicate) (*storage.Token, error) {
	var t storage.Token
	scan := func(row direct.Row) error { return ScanToken(row, &t) }
	args := []any{s.dialect.ID(tenant), d.Fingerprint[:]}
	if s.dialect.Lateral {
		args = append(args, d.Fingerprint[:])
	}
	ok, err := s.one(s.of(ctx, tenant), pointDuplicate, scan, append(args, d.Expression[:], d.Except, d.Now.UnixMicro())...)
	if err != nil || !ok {
		return nil, err
	}
	t.Tenant = tenant
	return &t, nil
}

// ContainerSets implements [storage.TokenReader].
func (s *Store) ContainerSets(ctx context.Context, tenant storage.ID) ([]storage.ContainerSet, error) {
	var sets []storage.ContainerSet
	var set storage.ContainerSet
	dest := []Field{{&set.Set}, {&set.Containers}}
	err := s.prepares().each(s.of(ctx, tenant), `SELECT DISTINCT set_id, containers FROM vault_container_sets WHERE tenant_id = ?`,
		[]any{s.dialect.ID(tenant)}, dest, func() { sets = append(sets, set) })
	return sets, err
}

// distinct returns the distinct values in their order.
func distinct[T comparable](values []T) []T {
	if len(values) < 2 {
		return values
	}
	seen := make(map[T]struct{}, len(values))
	kept := make([]T, 0, len(values))
	for _, v := range values {
		if _, ok := seen[v]; !ok {
			seen[v] = struct{}{}
			kept = append(kept, v)
		}
	}
	return kept
}
