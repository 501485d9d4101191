// Package stale answers what people ask and decide about facts that a new version of a document no longer states: what it said, who else
// says it, what a withdrawal would do, and the decision.
package stale

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Deps of New; Store and Operations are required.
type Deps struct {
	Store      *store.Store
	Operations *operations.Operations
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Now       func() time.Time
}

// Desk answers the verbs. Safe for concurrent use.
type Desk struct{ deps Deps }

// New makes a desk.
func New(d Deps) *Desk {
	if d.Committed == nil {
		d.Committed = func(string) {}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{d}
}

// Bounds of what is shown.
const (
	maxQuotes = 20 // of the document, and of others
	maxOthers = 1_000
)

// reader reads items of a snapshot. For one goroutine.
type reader struct {
	ctx context.Context
	sn  *store.Snapshot
}

// item is a stale fact as it stands now.
type item struct {
	store.StaleItem
	doc    store.Doc
	names  []string // of the ends, or of the holder
	others int      // other open documents that state it
	// counted is what is kept with the entities that its names stand for, where people told some of one name apart.
	counted store.Kept
}

func (r *reader) item(x store.StaleItem) (it item, err error) {
	it = item{StaleItem: x}
	if err := r.ctx.Err(); err != nil {
		return it, err
	}
	if it.doc, _, err = r.sn.Doc(x.Doc); err != nil {
		return it, err
	}
	if it.counted, err = r.sn.Counted(x.Doc, x.Kept); err != nil {
		return it, err
	}
	fact, err := it.counted.FactID()
	if err != nil {
		return it, err
	}
	for _, e := range it.counted.Ends {
		f, ok, err := r.sn.Entity(e.ID)
		if err != nil {
			return it, err
		}
		name := e.Key
		if ok {
			name = f.Display()
		}
		it.names = append(it.names, name)
	}
	documents := 0
	if x.Kept.Type != "" {
		f, _, err := r.sn.Relation(fact)
		if err != nil {
			return it, err
		}
		documents = f.Documents
	} else {
		err := r.sn.PropertyValues(it.counted.Ends[0].ID, x.Kept.Name, func(f store.PropertyFold) error {
			if schema.ValueText(f.Value) == schema.ValueText(x.Kept.Value) {
				documents = f.Documents
				return store.ErrStop
			}
			return nil
		})
		if err != nil {
			return it, err
		}
	}
	it.others = max(0, documents-1)
	return it, nil
}

func (it *item) relation() bool { return it.Kept.Type != "" }

func (it *item) key() string { return store.StaleKey(it.Doc, it.Fact) }

func (it *item) label() string {
	if it.relation() {
		return it.Kept.Type
	}
	return it.Kept.Name
}

func (it *item) confidence() float64 {
	best := 0.0
	for _, s := range it.Kept.Spans {
		best = max(best, s.Confidence)
	}
	return graph.Round6(best)
}

func (it *item) reason() string {
	if it.doc.Open {
		return "not_stated"
	}
	return "document_deleted"
}

// place says where an item stands in the list: those that most documents state first.
func (it *item) place() api.Place {
	return api.Place{Count: it.others + 1, Confidence: it.confidence(), Key: it.key(), State: api.StatePending}
}

// said is the fact in words.
func (it *item) said() string {
	if it.relation() {
		return it.names[0] + " " + it.Kept.Type + " " + it.names[1]
	}
	return fmt.Sprintf("%s of %s = %s", it.Kept.Name, it.names[0], schema.ValueText(it.Kept.Value))
}

func (r *reader) group(it *item) (api.Group, error) {
	g := api.Group{
		Key: it.key(), Kind: api.KindStale, Label: it.label(), Text: it.said(), SourceText: it.names[0], SourceLabel: it.Kept.Ends[0].Label,
		Reasons: []string{it.reason()}, State: api.StatePending, Count: it.others + 1, Confidence: it.confidence(), Documents: it.others + 1,
		IDs: []string{it.ID}, Revision: it.Seq,
	}
	if it.relation() {
		g.TargetText, g.TargetLabel = it.names[1], it.Kept.Ends[1].Label
	}
	q, err := r.said(it, 1)
	for _, x := range q {
		g.Sample = api.Sample{Document: x.Document, Chunk: x.Chunk, Quote: x.Quote, Start: x.Start, End: x.End}
	}
	return g, err
}

// said are the places where the document stated the fact.
func (r *reader) said(it *item, limit int) ([]api.Surrounded, error) {
	return desk.Quotes(r.sn, [][]desk.Span{spans(it.Doc, it.Kept.Version, it.Kept.Spans, limit)}, limit)
}

func spans(doc string, version int, list []store.EvidenceSpan, limit int) []desk.Span {
	out := make([]desk.Span, 0, min(len(list), limit))
	for _, s := range list[:min(len(list), limit)] {
		out = append(out, desk.Span{Doc: doc, Version: version, Chunk: s.Chunk, Start: s.Start, End: s.End, Confidence: s.Confidence, Extractor: s.Extractor})
	}
	return out
}

// elsewhere are a few places in other documents that state the fact.
func (r *reader) elsewhere(it *item) ([]api.Surrounded, error) {
	var docs [][]desk.Span
	looked := 0
	take := func(s store.EvidenceSupport) error {
		if looked++; looked > maxOthers || len(docs) == maxQuotes {
			return store.ErrStop
		}
		if s.DocID != it.Doc {
			docs = append(docs, spans(s.DocID, s.Version, s.Spans, maxQuotes))
		}
		return r.ctx.Err()
	}
	var err error
	if it.relation() {
		fact := ""
		if fact, err = it.counted.FactID(); err == nil {
			err = r.sn.Evidence(fact, "", take)
		}
	} else {
		err = r.sn.PropertySupports(it.counted.Ends[0].ID, it.Kept.Name, it.Kept.Value, take)
	}
	if err != nil {
		return nil, err
	}
	return desk.Quotes(r.sn, docs, maxQuotes)
}

// plan is what a withdrawal would do: the document's support goes, and the fact with it where nobody else states it. It goes by the
// document's revision and by how many others there are.
func (r *reader) plan(graphName string, it *item) (*plan.Plan, error) {
	c := plan.Change{Op: plan.Remove, Kind: graph.KindProperty, Label: it.label(), Source: it.names[0], SourceID: it.counted.Ends[0].ID, Document: it.doc.Meta.Key, Left: it.others}
	if it.relation() {
		c.Kind, c.Target, c.TargetID = graph.KindRelation, it.names[1], it.counted.Ends[1].ID
	} else {
		c.Value = it.Kept.Value
	}
	quotes, err := r.said(it, len(it.Kept.Spans))
	if err != nil {
		return nil, err
	}
	for _, q := range quotes {
		c.Quotes = append(c.Quotes, plan.Quote{Version: it.Kept.Version, Start: q.Start, End: q.End, Text: q.Quote})
	}
	p := &plan.Plan{Graph: graphName, Item: it.key(), Decision: api.DecideWithdraw, Base: []plan.Base{{Document: it.doc.Meta.Key, Revision: it.doc.Revision}}, Changes: []plan.Change{c}}
	return p.Canonical(), nil
}

// find reads the item of an id or key.
func (r *reader) find(graphName, id, key string) (it item, err error) {
	if key != "" {
		doc, fact, ok := strings.Cut(strings.TrimPrefix(key, "stale|"), "|")
		if !ok || !strings.HasPrefix(key, "stale|") {
			return it, notFound(graphName, key)
		}
		id = store.StaleID(doc, fact)
	}
	x, ok, err := r.sn.StaleByID(strings.ToLower(id))
	if err != nil {
		return it, err
	}
	if !ok {
		return it, r.gone(graphName, strings.ToLower(id))
	}
	return r.item(x)
}

// gone says why an item does not wait.
func (r *reader) gone(graphName, id string) error {
	d, ok, err := r.sn.StaleDecided(id)
	if err != nil {
		return err
	}
	if !ok {
		return notFound(graphName, id)
	}
	done := map[string]string{api.StateApproved: "withdrawn", api.StateRejected: "kept"}[d.State]
	e := api.Errorf(409, "already_decided", "%s was %s by %.100s in commit %d: undo that decision to decide anew", d.Key, done, d.Actor, d.Seq)
	e.Details = map[string]any{"key": d.Key, "state": d.State, "decision": done, "actor": d.Actor, "revision": d.Seq}
	return e
}

func notFound(graphName, what string) error {
	return api.Errorf(404, "stale_not_found", "graph %s asks about no stale fact %.200q, or not any more", graphName, what)
}

// List answers stale.list.
func (d *Desk) List(ctx context.Context, graphName string, req api.StaleList) (reply api.StaleListReply, err error) {
	reply.Groups = []api.Group{}
	switch {
	case req.Limit < 0 || req.Limit > desk.MaxLimit:
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", req.Limit, desk.MaxLimit)
	case math.IsNaN(req.MinScore) || req.MinScore < 0 || req.MinScore > 1:
		return reply, api.Errorf(400, "bad_value", "min_score is %v: it must be between 0 and 1", req.MinScore)
	case req.MinCount < 0:
		return reply, api.Errorf(400, "bad_value", "min_count is %d: it must not be negative", req.MinCount)
	}
	err = desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		c, err := sn.Counts()
		if err != nil {
			return err
		}
		reply.Seq, reply.Waiting = sn.Seq(), c.Stale
		if req.Limit == 0 || c.Stale == 0 {
			return nil
		}
		r := &reader{ctx, sn}
		label, page := schema.FoldLabel(req.Label), desk.NewTop[item](req.Limit+1)
		err = sn.Stale(func(x store.StaleItem) error {
			it, err := r.item(x)
			if err != nil || label != "" && schema.FoldLabel(it.label()) != label {
				return err
			}
			p := it.place()
			if p.Count < req.MinCount || p.Confidence < req.MinScore {
				return nil
			}
			reply.Total++
			if req.After == nil || req.After.Before(p) {
				page.Add(it, p)
			}
			return nil
		})
		if err != nil {
			return err
		}
		reply.Groups, reply.More, err = desk.Fill(page.List(), req.Limit, func(it item) (api.Group, error) { return r.group(&it) })
		return err
	})
	return reply, err
}

// Get answers stale.get.
func (d *Desk) Get(ctx context.Context, graphName string, req api.StaleGet) (reply api.StaleReply, err error) {
	if (req.ID == "") == (req.Key == "") {
		return reply, api.Errorf(400, "bad_value", "give either id or key")
	}
	err = desk.With(d.deps.Store, graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return notFound(graphName, req.ID+req.Key)
		}
		r := &reader{ctx, sn}
		it, err := r.find(graphName, req.ID, req.Key)
		if err != nil {
			return err
		}
		if reply.History, err = (audit.Trail{Store: d.deps.Store, Graph: graphName}).Of(it.key()); err != nil {
			return err
		}
		if reply.History == nil {
			reply.History = []events.Audit{}
		}
		return r.whole(graphName, &it, &reply)
	})
	return reply, err
}

func (r *reader) whole(graphName string, it *item, reply *api.StaleReply) (err error) {
	reply.Seq, reply.Others = r.sn.Seq(), it.others
	if reply.Item, err = r.group(it); err != nil {
		return err
	}
	if reply.Evidence, err = r.said(it, maxQuotes); err != nil {
		return err
	}
	if reply.OtherQuotes, err = r.elsewhere(it); err != nil {
		return err
	}
	if reply.Plan, err = r.plan(graphName, it); err != nil {
		return err
	}
	reply.Fingerprint = reply.Plan.Fingerprint()
	return nil
}
