package form

import "math"

// Bounds on lists.
const (
	DefaultPageSize = 20
	MaxPageSize     = 100
	// MaxListValues bounds each repeated filter of a list.
	MaxListValues = 1000
)

// Paging asks for a page of a list. Zero values mean the first page and the
// default size.
type Paging struct {
	Page int
	Size int
}

// Check fills in the defaults and returns what is out of bounds.
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

// Offset is how many items are before the page.
func (p *Paging) Offset() int { return (p.Page - 1) * p.Size }
