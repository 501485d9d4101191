package conflicts

import (
	"fmt"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/query"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Bounds of a plan.
const (
	maxPlanned      = 100      // documents whose quotes are in it; all that state a value are its base
	maxPlanQuotes   = 3        // of a document
	planReplyBudget = 96 << 10 // bytes of a plan in a reply, about
)

// planned is the plan of the item's approval as replies have it.
func (r *reader) planned(graphName string, x *item) (out api.Planned, err error) {
	if x.ruling != nil && x.ruling.Apart { // nothing is decided about it but by an undo
		return out, nil
	}
	make := r.plan
	if x.kind == ofMissing {
		make = r.missingPlan
	}
	p, err := make(graphName, x)
	if err != nil {
		return out, err
	}
	out.Fingerprint = p.Fingerprint()
	out.Plan, out.PlanLeftOut = p.Within(planReplyBudget)
	return out, nil
}

// plan is what approving the item does: the value that is shown first is chosen, and each other one becomes it. Whatever is decided quotes
// its fingerprint, so it says all that there was to see: the values, who states them, and what was decided before.
func (r *reader) plan(graphName string, x *item) (*plan.Plan, error) {
	p := &plan.Plan{Graph: graphName, Item: fingerprint.ConflictKey(x.Owner, x.Property), Decision: events.DecisionChoose, Schema: r.schema.Fingerprint(),
		Base: []plan.Base{}, Changes: []plan.Change{}}
	if len(x.values) == 0 {
		return nil, fmt.Errorf("%w: a conflict of no values of %s of %s", store.ErrCorrupt, x.Property, x.Owner)
	}
	chosen := query.Rounded(x.values[0].Value)
	change := func(op, kind string) plan.Change {
		return plan.Change{Op: op, Kind: kind, Label: x.Property, Source: x.name, SourceID: x.Owner, Value: chosen}
	}
	docs := map[string]bool{}
	for i, f := range x.values {
		if x.kind == ofEdges {
			p.Changes = append(p.Changes, x.edgeChange(f, i == 0))
		} else if i > 0 {
			c := change(plan.Set, "property")
			c.Was, c.Left = query.Rounded(f.Value), f.Documents
			p.Changes = append(p.Changes, c)
		}
		n := 0
		err := r.supports(x, f, func(s store.EvidenceSupport) error {
			if err := r.tick(); err != nil {
				return err
			}
			if docs[s.DocID] { // it states several
				return nil
			}
			docs[s.DocID] = true
			d, _, err := r.sn.Doc(s.DocID)
			if err != nil {
				return err
			}
			p.Base = append(p.Base, plan.Base{Document: d.Meta.Key, Revision: d.Revision})
			if n++; i > 0 || n > maxPlanned {
				return nil
			}
			c := change(plan.Set, "property")
			if x.kind == ofEdges {
				c = x.edgeChange(f, true)
			}
			c.Document, c.Left = d.Meta.Key, f.Documents-1
			c.Quotes, err = r.planQuotes(s)
			p.Changes = append(p.Changes, c)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	state := change(plan.Set, "state")
	if x.kind == ofEdges {
		state.Label, state.Left = x.Property, x.most // how many may be is a part of what was seen
	}
	state.Value, state.Was = api.StateApproved, x.state+decided(x.ruling)
	p.Changes = append(p.Changes, state)
	return p.Canonical(), nil
}

// decided says what stands, in words that two different rulings do not share.
func decided(r *store.Ruling) string {
	if r == nil {
		return ""
	}
	var out []string
	switch {
	case r.All:
		out = append(out, "all are kept")
	case r.Chosen != "":
		out = append(out, "chosen is "+r.Chosen[1:])
	}
	for _, v := range r.Rejected {
		out = append(out, "rejected is "+v[1:])
	}
	return " (" + strings.Join(out, ", ") + ")"
}

func (r *reader) planQuotes(s store.EvidenceSupport) (out []plan.Quote, err error) {
	text, ok, err := r.sn.Text(s.DocID, s.Version)
	if err != nil {
		return nil, err
	}
	for _, e := range s.Spans[:min(len(s.Spans), maxPlanQuotes)] {
		if !ok || e.Start > e.End || e.End > len(text) {
			return nil, fmt.Errorf("%w: a place in version %d of document %s is not in its text", store.ErrCorrupt, s.Version, s.DocID)
		}
		out = append(out, plan.Quote{Version: s.Version, Start: e.Start, End: e.End, Text: text[e.Start:e.End]})
	}
	return out, nil
}
