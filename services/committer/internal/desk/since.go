package desk

import (
	"cmp"
	"slices"
	"time"
)

// Since says since when an item waits.
type Since struct {
	ID string
	// Seq is the commit since which it is as it is; 0: it does not wait.
	Seq uint64
	// At is that commit's time; zero: the item does not know.
	At time.Time
}

// Eldest keeps those of many items that wait longest.
type Eldest struct {
	limit int
	list  []Since
}

// NewEldest keeps limit items, and holds at most twice as many.
func NewEldest(limit int) *Eldest { return &Eldest{limit: limit} }

// Add considers an item.
func (e *Eldest) Add(s Since) {
	if e.list = append(e.list, s); len(e.list) >= 2*e.limit {
		e.list = e.List()
	}
}

// List are the items, the eldest first.
func (e *Eldest) List() []Since {
	slices.SortFunc(e.list, func(a, b Since) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.ID, b.ID)) })
	return e.list[:min(len(e.list), e.limit)]
}
