package store

import "context"

// Ahead reads the folds of what documents state, for all of them together in the order of the rows: each look-up goes on where the one
// before ended, so that many of them cost a large graph little more than a small one. It changes nothing, and documents that turn out
// to be wrong are Apply's to refuse.
func (t *Txn) Ahead(ctx context.Context, docs []DocChange) error {
	if err := t.lock(); err != nil {
		return err
	}
	defer t.unlock()
	want := newFoldKeys()
	for i := range docs {
		docs[i].Prepare()
		want.add(docs[i].prep)
	}
	for _, v := range inOrder(want.ents) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := t.entity(v); err != nil {
			return err
		}
	}
	for _, v := range inOrder(want.rels) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := t.relation(v); err != nil {
			return err
		}
	}
	for _, k := range propsInOrder(want.props) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := t.prop(k); err != nil {
			return err
		}
	}
	return nil
}

// foldKeys are the facts whose folds documents need.
type foldKeys struct {
	ents, rels map[id]struct{}
	props      map[propID]struct{}
}

func newFoldKeys() foldKeys {
	return foldKeys{map[id]struct{}{}, map[id]struct{}{}, map[propID]struct{}{}}
}

func (w foldKeys) add(p *prepared) {
	if p == nil {
		return
	}
	for v := range p.facts.ents {
		w.ents[v] = struct{}{}
	}
	for v := range p.facts.rels {
		w.rels[v] = struct{}{}
	}
	for k := range p.facts.props {
		w.props[k] = struct{}{}
	}
}
