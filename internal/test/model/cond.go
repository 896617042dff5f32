package model

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Holds evaluates a condition on a token, which must have its hashes.
func Holds(c storage.Cond, t *storage.Token) bool {
	switch c := c.(type) {
	case nil:
		return true
	case storage.And:
		return !slices.ContainsFunc(c, func(c storage.Cond) bool { return !Holds(c, t) })
	case storage.Or:
		return slices.ContainsFunc(c, func(c storage.Cond) bool { return Holds(c, t) })
	case storage.Not:
		return !Holds(c.Cond, t)
	case storage.SetIn:
		return slices.Contains(c, t.Set)
	case storage.TypeIn:
		return slices.Contains(c, t.Type)
	case storage.IDIn:
		return slices.Contains(c, t.ID)
	case storage.IDPrefix:
		return strings.HasPrefix(t.ID, string(c))
	case storage.HashIs:
		return slices.Contains(t.Hashes, storage.Hash(c))
	case storage.FingerprintIs:
		return t.Fingerprint == storage.Key(c)
	case storage.ByIs:
		if c.Field == storage.CreatedBy {
			return t.CreatedBy == c.ID
		}
		return t.ModifiedBy == c.ID
	case storage.TimeIn:
		return inRange(c, t)
	case storage.KeyBelow:
		return t.KeyVersion < int(c)
	}
	return false
}

func inRange(c storage.TimeIn, t *storage.Token) bool {
	at := t.CreatedAt
	if c.Field == storage.ModifiedAt {
		at = t.ModifiedAt
	}
	return !at.IsZero() && afterStart(at, c.From, c.ExcludeFrom) && beforeEnd(at, c.To, c.ExcludeTo)
}

func afterStart(at, from time.Time, excluded bool) bool {
	return from.IsZero() || at.After(from) || !excluded && at.Equal(from)
}

func beforeEnd(at, to time.Time, excluded bool) bool {
	return to.IsZero() || at.Before(to) || !excluded && at.Equal(to)
}

// nameMatches reports whether a whole name matches a pattern in which '*'
// matches any text, ignoring case.
func nameMatches(pattern, name string) bool {
	parts := strings.Split(strings.ToLower(pattern), "*")
	name = strings.ToLower(name)
	if len(parts) == 1 {
		return name == parts[0]
	}
	first, middle, last := parts[0], parts[1:len(parts)-1], parts[len(parts)-1]
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for _, part := range middle {
		_, rest, found := strings.Cut(name, part)
		if !found {
			return false
		}
		name = rest
	}
	return strings.HasSuffix(name, last)
}
