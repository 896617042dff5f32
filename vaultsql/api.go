package vaultsql

import (
	"context"
	"iter"
	"time"

	"github.com/seed-72ea4aab/vault"
)

// Reader is the part of [vault.API] that [Open] and [Lookup] use.
type Reader interface {
	Detokenize(ctx context.Context, document any) (vault.JSON, error)
	ListTokens(ctx context.Context, p vault.ListTokensParams) (*vault.Page[vault.Token], error)
	AllTokens(ctx context.Context, sel vault.TokenSelection) iter.Seq2[*vault.Token, error]
}

// API is the part of [vault.API] that this package uses.
type API interface {
	Reader
	Tokenize(ctx context.Context, document any) (vault.JSON, error)
	PatchToken(ctx context.Context, id string, patch any) (*vault.Token, error)
	DeleteToken(ctx context.Context, id string) error
	EraseTokens(ctx context.Context, p vault.EraseParams) (*vault.Erasure, error)
	Now(ctx context.Context) (time.Time, error)
}
