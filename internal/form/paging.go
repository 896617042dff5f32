package form

import "math"

// Limits on lists.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
	// MaxListValues is the maximum number of values of each repeated filter.
	MaxListValues = 1000
)

// Paging selects a page of a list. Zero values mean the first page and the
// default size.
type Paging struct {
	Page int
	Size int
}

// Check sets the defaults and returns the problems.
func (p *Paging) Check() *Problems {
	bad := &Problems{}
	if p.Page == 0 {
		p.Page = 1
	}
	if p.Size == 0 {
		p.Size = DefaultPageSize
	}
	if p.Page < 1 || p.Page > math.MaxInt32 {
		bad.Add("page", "must be a number from 1 to %d", math.MaxInt32)
	}
	if p.Size < 1 || p.Size > MaxPageSize {
		bad.Add("size", "must be a number from 1 to %d", MaxPageSize)
	}
	return bad
}

// Offset returns the number of items before the page.
func (p *Paging) Offset() int { return (p.Page - 1) * p.Size }
