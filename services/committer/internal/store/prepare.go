package store

import "github.com/factmill/factmill/pkg/graph"

// prepared is what of a change follows from it alone. It is only read once it is made, but for now's statements, which those of a chunk
// that was not read whole join.
type prepared struct {
	now    *statements
	stated graph.Assertions // of now
	facts  *docFacts        // of stated
	row    []byte           // of stated and what was dropped, where nothing is kept of an earlier version
}

// Prepare does what of applying the change needs no store, so that it can be done beside a commit. The change must not be altered behind
// it. What is wrong with it is Apply's to say.
func (c *DocChange) Prepare() {
	if c.Decision != graph.NewVersion && c.Decision != graph.InPlace {
		return
	}
	if p, err := c.prepare(); err == nil {
		c.prep = p
	}
}

func (c *DocChange) prepare() (p *prepared, err error) {
	if c.prep != nil {
		return c.prep, nil
	}
	p = &prepared{}
	if p.now, err = flatten(c.Meta.Key, c.Assertions, c.Symmetric); err != nil {
		return nil, err
	}
	p.stated = p.now.assemble()
	if p.facts, err = factsOf(p.stated); err != nil {
		return nil, err
	}
	p.row, err = encodeStated(Stated{Assertions: p.stated, Dropped: c.Dropped})
	return p, err
}

// carried makes anew what a prepared change states, behind statements of an earlier reading that joined it.
func (p *prepared) carried() (err error) {
	p.stated, p.row = p.now.assemble(), nil
	p.facts, err = factsOf(p.stated)
	return err
}

// encode makes the row of what a version states.
func (p *prepared) encode(st Stated) ([]byte, error) {
	if p.row != nil && len(st.Kept) == 0 && len(st.Decided) == 0 {
		return p.row, nil
	}
	return encodeStated(st)
}
