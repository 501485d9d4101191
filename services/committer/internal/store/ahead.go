package store

import (
	"context"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

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
		want.add(&docs[i])
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

func (w foldKeys) add(c *DocChange) {
	ents := make([]id, len(c.Assertions.Entities))
	for i, e := range c.Assertions.Entities {
		v, ok := parseID(e.ID)
		if !ok {
			return
		}
		ents[i] = v
		w.ents[v] = struct{}{}
	}
	at := func(n int) (id, bool) {
		if n < 0 || n >= len(ents) {
			return id{}, false
		}
		return ents[n], true
	}
	for _, chunk := range c.Assertions.Chunks {
		for _, p := range chunk.Properties {
			if v, ok := at(p.Entity); ok {
				w.value(v, p.Name, p.Value)
			}
		}
		for _, r := range chunk.Relations {
			w.relation(c, r, at)
		}
	}
}

func (w foldKeys) relation(c *DocChange, r graph.RelationA, at func(int) (id, bool)) {
	src, ok := at(r.Source)
	dst, ok2 := at(r.Target)
	if !ok || !ok2 {
		return
	}
	v, ok := parseID(fingerprint.RelationID(r.Type, src.String(), dst.String(), c.Symmetric != nil && c.Symmetric(r.Type)))
	if !ok {
		return
	}
	w.rels[v] = struct{}{}
	for name, value := range r.Properties {
		w.value(v, name, value)
	}
}

func (w foldKeys) value(owner id, name string, value any) {
	if k, err := valueKey(value); err == nil {
		w.props[propID{owner, name, k}] = struct{}{}
	}
}
