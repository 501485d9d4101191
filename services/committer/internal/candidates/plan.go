package candidates

import (
	"cmp"
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Bounds of a plan.
const (
	maxPlanned      = 200      // records that are listed; the others are counted and hashed
	maxExtractions  = 20       // extraction fingerprints that are named
	planReplyBudget = 96 << 10 // bytes of a plan in a reply, about
)

// planner makes the plans of candidates' approvals: what each record comes to at its conversion, were the schema to take it.
type planner struct {
	ctx      context.Context
	sn       *store.Snapshot
	ends     *Ends
	schema   *schema.Schema
	graph    string
	identify func(graph, label, key string) (string, error)
	// instead of the stored record of its document and key: what an edit makes of it; nil: none.
	instead *store.CandidateRecord

	docs map[string]plan.Base // by document id; at most maxKnown
}

func (d *Desk) planner(ctx context.Context, graphName string, sn *store.Snapshot, ends *Ends) *planner {
	return &planner{ctx: ctx, sn: sn, ends: ends, schema: ends.schema, graph: graphName, identify: d.deps.Identify, docs: map[string]plan.Base{}}
}

// plan is what approving a key does: the facts that its records become, each with its document, and the states that change. An approved
// key has no state that changes, a rejected one nothing at all.
func (p *planner) plan(key string) (*plan.Plan, error) {
	out := &plan.Plan{Graph: p.graph, Item: key, Decision: api.DecideApprove, Schema: p.schema.Fingerprint(), Base: []plan.Base{}, Changes: []plan.Change{}}
	was, decided, err := p.sn.Decision(key)
	if err != nil || decided && was.State == api.StateRejected {
		return out, err
	}
	extractions := map[string]bool{}
	waiting, listed := 0, 0
	var rest plan.Digest
	err = p.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		if err := p.ctx.Err(); err != nil || r.State == api.StateRejected {
			return err
		}
		if x := p.instead; x != nil && x.DocID == r.DocID && x.Key == r.Key {
			r = *x
		}
		if len(extractions) < maxExtractions {
			extractions[r.ExtractionFP] = true
		}
		c, admitted, err := p.change(&r)
		if err != nil {
			return err
		}
		if admitted && r.State == api.StatePending {
			waiting++
		}
		base, err := p.base(r.DocID)
		if err != nil {
			return err
		}
		c.Document = base.Document
		if listed++; listed > maxPlanned {
			rest.Add(c, base)
			return nil
		}
		out.Base, out.Changes = append(out.Base, base), append(out.Changes, c)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if waiting > 0 {
		out.Changes = append(out.Changes, plan.Change{Op: plan.Set, Kind: "state", Was: api.StatePending, Value: api.StateApproved, Left: waiting})
	}
	out.Extraction, out.Rest = strings.Join(sortedKeys(extractions), " "), rest.Rest()
	return out.Canonical(), nil
}

// base is a document as it is now.
func (p *planner) base(docID string) (plan.Base, error) {
	if b, ok := p.docs[docID]; ok {
		return b, nil
	}
	d, _, err := p.sn.Doc(docID)
	if len(p.docs) >= maxKnown {
		clear(p.docs)
	}
	p.docs[docID] = plan.Base{Document: d.Meta.Key, Revision: d.Revision}
	return p.docs[docID], err
}

// change is what a record becomes. One that cannot be approved waits, and says for what; admitted says that it can.
func (p *planner) change(r *store.CandidateRecord) (c plan.Change, admitted bool, err error) {
	c = plan.Change{Op: plan.Add, Kind: r.Kind, Label: r.Label}
	for i, m := range append([][3]int{{r.Chunk, r.Start, r.End}}, r.More...) {
		q := plan.Quote{Version: r.Version, Start: m[1], End: m[2]}
		if i == 0 {
			q.Text = r.Quote
		}
		c.Quotes = append(c.Quotes, q)
	}
	switch r.Kind {
	case graph.KindRelation:
		err = p.relation(r, &c)
	case graph.KindProperty:
		err = p.property(r, &c)
	default:
		err = p.entity(r, &c)
	}
	if err != nil {
		return c, false, err
	}
	why, err := p.ends.Check(r)
	if why != "" {
		c.Op, c.Was = plan.Wait, why
	}
	return c, why == "", err
}

func (p *planner) entity(r *store.CandidateRecord, c *plan.Change) error {
	if label, ok := p.schema.Canon(schema.KindEntity, r.Label); ok {
		c.Label = label
	}
	x, err := identity(p.identify, p.graph, c.Label, r.Text)
	if err != nil {
		return err
	}
	c.Source, c.SourceID = r.Text, x.id
	f, _, err := p.sn.Entity(x.id)
	c.Left = f.Documents
	return err
}

// end resolves an end to the id of its entity, or the key of the approved candidate that will be one; "" where it is neither.
func (p *planner) end(x end) (name, id string, a answer, err error) {
	a, err = p.ends.find(x)
	if err != nil || a.why != "" {
		return x.text, "", a, err
	}
	if a.entity == "" {
		return x.text, a.candidate, a, nil
	}
	f, _, err := p.sn.Entity(a.entity)
	return cmp.Or(f.Display(), x.text), a.entity, a, err
}

func (p *planner) relation(r *store.CandidateRecord, c *plan.Change) (err error) {
	swapped := false
	if label, s, ok := p.schema.CanonRelation(r.Label); ok {
		c.Label, swapped = label, s
	}
	if c.Source, c.SourceID, _, err = p.end(end{r.SourceText, r.SourceLabel, r.SourceEntity}); err != nil {
		return err
	}
	if c.Target, c.TargetID, _, err = p.end(end{r.TargetText, r.TargetLabel, r.TargetEntity}); err != nil {
		return err
	}
	if swapped {
		c.Source, c.SourceID, c.Target, c.TargetID = c.Target, c.TargetID, c.Source, c.SourceID
	}
	if c.SourceID == "" || c.TargetID == "" {
		return nil
	}
	declared, _ := p.schema.Relation(c.Label)
	f, _, err := p.sn.Relation(fingerprint.RelationID(c.Label, c.SourceID, c.TargetID, declared.Symmetric))
	c.Left = f.Documents
	return err
}

func (p *planner) property(r *store.CandidateRecord, c *plan.Change) error {
	name, id, a, err := p.end(end{r.SourceText, r.SourceLabel, r.SourceEntity})
	if err != nil {
		return err
	}
	c.Source, c.SourceID, c.Value = name, id, r.Text
	if spec, ok := p.schema.Property(a.label, r.Label); ok {
		c.Label = spec.Name
		if v, err := schema.ParseValue(spec, r.Text); err == nil {
			c.Value = v
		}
	}
	if a.entity == "" {
		return nil
	}
	return p.sn.PropertyValues(a.entity, c.Label, func(f store.PropertyFold) error {
		if schema.ValueText(f.Value) == schema.ValueText(c.Value) {
			c.Left = f.Documents
			return store.ErrStop
		}
		return p.ctx.Err()
	})
}

// planned is a plan as replies have it.
func planned(p *plan.Plan) (out api.Planned) {
	out.Fingerprint = p.Fingerprint()
	out.Plan, out.PlanLeftOut = p.Within(planReplyBudget)
	return out
}

// moved refuses a decision about a key whose plan is not the one that was looked at.
func moved(key string, p *plan.Plan, state string) *api.Error {
	now := planned(p)
	e := api.Errorf(409, "stale_plan", "candidate %.200s is not what was looked at: documents, decisions or the schema changed meanwhile; nothing was decided, look again", key)
	e.Details = map[string]any{"plan": now.Plan, "fingerprint": now.Fingerprint, "state": state}
	if now.PlanLeftOut > 0 {
		e.Details["plan_left_out"] = now.PlanLeftOut
	}
	return e
}

// Plan answers candidates.plan: what approving a candidate does, by its key or the id of a record, and what it is at now.
func (d *Desk) Plan(ctx context.Context, graphName string, req api.CandidatePlanGet) (reply api.CandidatePlan, err error) {
	if (req.ID == "") == (req.Key == "") {
		return reply, api.Errorf(400, "bad_value", "give either id or key")
	}
	s, err := d.deps.Schemas.Schema(graphName, 0)
	if err != nil {
		return reply, err
	}
	err = d.with(graphName, func(sn *store.Snapshot) error {
		if sn == nil {
			return noCandidate(graphName, req.ID+req.Key)
		}
		key := req.Key
		if key == "" {
			if _, key, _, err = sn.CandidateByID(strings.ToLower(req.ID)); err != nil {
				return err
			}
		}
		if kindOf(key) == "" {
			return noCandidate(graphName, req.ID+req.Key)
		}
		p, err := d.planner(ctx, graphName, sn, NewEnds(ctx, sn, s)).plan(key)
		if err != nil {
			return err
		}
		reply.Key, reply.Seq, reply.Planned = key, sn.Seq(), planned(p)
		return nil
	})
	return reply, err
}

// stateOf is the state of a key: what was decided, else pending; "" where there is none.
func stateOf(sn *store.Snapshot, key string) (string, error) {
	d, ok, err := sn.Decision(key)
	if err != nil || ok {
		return d.State, err
	}
	state := ""
	err = sn.CandidateRows(key, key, func(r store.CandidateRow) error {
		if r.Key == key {
			state = r.State
		}
		return store.ErrStop
	})
	return state, err
}
