package query

import (
	"context"
	"errors"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	verbDocuments = "documents"
	verbEntities  = "entities"
	verbRelations = "relations"

	// perListed is how many mentions or quotes a listed fact has.
	perListed = 2
	// maxListed rows are looked at for one page: a rare type among many gives short pages instead of a request that takes for ever.
	maxListed = 100_000
)

// listAt is where a list goes on: at the entity ID of the folded name Name (for documents Name is a key), behind Skip of its
// relations.
type listAt struct {
	Seq  uint64 `json:"s"`
	Name string `json:"n,omitempty"`
	ID   string `json:"i,omitempty"`
	Skip int    `json:"k,omitempty"`
}

// pages is one page of a list under way.
type pages struct {
	v     *view
	verb  string
	limit int
	room  *budget
	at    listAt // behind what was given
	taken int
	seen  int
	next  string
}

// more ends the page when it is full; it is asked before a row is looked at.
func (p *pages) more() error {
	if err := p.v.tick(); err != nil {
		return err
	}
	if p.seen++; p.taken < p.limit && p.seen <= maxListed {
		return nil
	}
	return p.cut()
}

func (p *pages) cut() error {
	p.next = encodeCursor(p.verb, p.at)
	return errPageFull
}

// list opens a page at a cursor and lets fn fill it.
func (q *Queries) list(ctx context.Context, name, verb, cursor string, limit int, asOf uint64, w *api.Within, fn func(p *pages) error) error {
	limit, bad := limited("limit", limit, defaultPage, maxPage)
	if bad != nil {
		return bad
	}
	at := listAt{Seq: asOf}
	if cursor != "" {
		if err := decodeCursor(verb, cursor, &at); err != nil {
			return err
		}
		if at.Skip < 0 || asOf != 0 && asOf != at.Seq {
			return badValue("cursor is not one that %s gave for this request", verb)
		}
	}
	return q.within(ctx, name, at.Seq, "", w, func(v *view) error {
		if v == nil {
			return nil
		}
		at.Seq = v.sn.Seq()
		p := &pages{v: v, verb: verb, limit: limit, room: newBudget(), at: at}
		if err := fn(p); !errors.Is(err, errPageFull) {
			return err
		}
		return nil
	})
}

// Documents answers query.documents: the open documents by key.
func (q *Queries) Documents(ctx context.Context, name string, req api.DocumentList) (api.DocumentListReply, error) {
	out := api.DocumentListReply{Documents: []api.ListedDocument{}}
	var p *pages
	err := q.list(ctx, name, verbDocuments, req.Cursor, req.Limit, req.AsOf, req.Within, func(page *pages) error {
		p = page
		c, err := p.v.sn.Counts()
		if err != nil {
			return err
		}
		out.Seq, out.Total = p.v.sn.Seq(), c.Documents
		if !p.v.sn.showsText() {
			return nil
		}
		return p.documents(req.Prefix, &out)
	})
	if p != nil {
		out.Next = p.next
	}
	if req.Within.Any() {
		out.Total, out.TotalUnknown, out.Outside = 0, true, outsideList(len(out.Documents), out.Next)
	}
	return out, err
}

// outsideList says in words that a limited list is empty.
func outsideList(given int, next string) string {
	if given > 0 || next != "" {
		return ""
	}
	return nothingInside
}

func (p *pages) documents(prefix string, out *api.DocumentListReply) error {
	add := func(d store.Doc) error {
		if !strings.HasPrefix(d.Meta.Key, prefix) {
			return store.ErrStop
		}
		if err := p.more(); err != nil {
			return err
		}
		if d.Open {
			row, err := p.v.listedDocument(d)
			if err != nil {
				return err
			}
			if !p.room.take(sizeOf(row) + 1) {
				return p.cut()
			}
			out.Documents = append(out.Documents, row)
			p.taken++
		}
		p.at.Name = d.Meta.Key
		return nil
	}
	if p.at.Name == "" && prefix != "" { // keys behind the prefix follow; the key that is the prefix itself comes first
		d, ok, err := p.v.sn.DocByKey(prefix)
		if err == nil && ok {
			err = add(d)
		}
		if err != nil {
			return err
		}
	}
	return p.v.sn.Docs(max(p.at.Name, prefix), add)
}

func (v *view) listedDocument(d store.Doc) (api.ListedDocument, error) {
	at, err := v.at(d.Meta.ID, d.Version)
	if err != nil {
		return api.ListedDocument{}, err
	}
	return api.ListedDocument{DocumentRow: documentRow(d), Version: d.Version, Chunks: len(at.meta.Chunks),
		FromSeq: at.meta.FromSeq, FromTime: at.meta.FromTime, Job: at.meta.Job}, nil
}

// Entities answers query.entities: the entities of a type by name.
func (q *Queries) Entities(ctx context.Context, name string, req api.EntityList) (api.EntityListReply, error) {
	out := api.EntityListReply{Entities: []graph.EntityRow{}}
	var p *pages
	err := q.list(ctx, name, verbEntities, req.Cursor, req.Limit, req.AsOf, req.Within, func(page *pages) error {
		p = page
		return p.entities(req.Type, &out)
	})
	if p != nil {
		out.Next = p.next
	}
	if req.Within.Any() {
		out.Total, out.TotalUnknown, out.Outside = 0, true, outsideList(len(out.Entities), out.Next)
	}
	return out, err
}

func (p *pages) entities(label string, out *api.EntityListReply) error {
	v := p.v
	if canon, ok := v.schema.Canon(schema.KindEntity, label); ok {
		label = canon
	}
	c, err := v.sn.Counts()
	if err != nil {
		return err
	}
	out.Seq = v.sn.Seq()
	for l, n := range c.Entities {
		if v.isA(l, label, false) {
			out.Total += n
		}
	}
	return v.sn.EntityNames(store.NamedEntity{Name: p.at.Name, ID: p.at.ID}, func(n store.NamedEntity) error {
		if err := p.more(); err != nil {
			return err
		}
		if v.isA(n.Label, label, false) {
			e, ok, err := v.sn.Entity(n.ID)
			if err != nil || !ok {
				return err
			}
			row, ok, err := v.entityRow(e, perListed, p.room)
			if err != nil {
				return err
			}
			if !ok && p.taken > 0 {
				return p.cut()
			}
			out.Entities = append(out.Entities, row)
			p.taken++
		}
		p.at.Name, p.at.ID = n.Name, n.ID
		return nil
	})
}

// Relations answers query.relations: the relations of a type by the name of their source.
func (q *Queries) Relations(ctx context.Context, name string, req api.RelationList) (api.RelationListReply, error) {
	out := api.RelationListReply{Relations: []graph.RelationRow{}}
	var p *pages
	err := q.list(ctx, name, verbRelations, req.Cursor, req.Limit, req.AsOf, req.Within, func(page *pages) error {
		p = page
		return p.relations(req.Type, &out)
	})
	if p != nil {
		out.Next = p.next
	}
	if req.Within.Any() {
		out.Total, out.TotalUnknown, out.Outside = 0, true, outsideList(len(out.Relations), out.Next)
	}
	return out, err
}

func (p *pages) relations(relType string, out *api.RelationListReply) error {
	v := p.v
	if canon, _, ok := v.schema.CanonRelation(relType); ok {
		relType = canon
	}
	c, err := v.sn.Counts()
	if err != nil {
		return err
	}
	out.Seq = v.sn.Seq()
	for l, n := range c.Relations {
		if relType == "" || l == relType {
			out.Total += n
		}
	}
	if out.Total == 0 {
		return nil
	}
	from := store.NamedEntity{Name: p.at.Name, ID: p.at.ID}
	if from.ID != "" { // the page before ended among its relations
		if err := p.from(from, relType, p.at.Skip, out); err != nil {
			return err
		}
	}
	return v.sn.EntityNames(from, func(n store.NamedEntity) error {
		if err := p.more(); err != nil {
			return err
		}
		return p.from(n, relType, 0, out)
	})
}

// from adds the relations that begin at an entity, behind skip of them.
func (p *pages) from(n store.NamedEntity, relType string, skip int, out *api.RelationListReply) error {
	i := 0
	err := p.v.sn.Out(n.ID, relType, func(e store.Edge) error {
		if i++; i <= skip {
			return p.v.tick()
		}
		if err := p.more(); err != nil {
			return err
		}
		f, ok, err := p.v.sn.Relation(e.Relation)
		if err != nil || !ok {
			return err
		}
		row, ok, err := p.v.relationRow(f, perListed, p.room)
		if err != nil {
			return err
		}
		if !ok && p.taken > 0 {
			return p.cut()
		}
		out.Relations = append(out.Relations, row)
		p.taken++
		p.at.Name, p.at.ID, p.at.Skip = n.Name, n.ID, i
		return nil
	})
	if err == nil {
		p.at.Name, p.at.ID, p.at.Skip = n.Name, n.ID, i
	}
	return err
}
