package matches

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/desk"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	maxFits         = 50       // entities that fit a name which are shown
	maxWords        = 5        // of those, in a plan
	maxCounted      = 1000     // of those, in a group
	planReplyBudget = 96 << 10 // bytes of a plan in a reply, about
)

// eachFit calls fn for the matches of an entity in which nobody, and no model, told the two apart: the entities that fit its name.
func (r *reader) eachFit(entity string, fn func(m store.Match) error) error {
	return r.sn.Matches(entity, func(m store.Match) error {
		if err := r.tick(); err != nil {
			return err
		}
		if m.State() == store.MatchRejected {
			return nil
		}
		return fn(m)
	})
}

func (r *reader) countFits(entity string) (n int, err error) {
	err = r.eachFit(entity, func(store.Match) error {
		if n++; n == maxCounted {
			return store.ErrStop
		}
		return nil
	})
	return n, err
}

func other(m store.Match, entity string) string {
	if m.A == entity {
		return m.B
	}
	return m.A
}

// fits are, of either side of a match, the entities that fit its name, where several do.
func (r *reader) fits(m store.Match) (out []api.MatchFits, err error) {
	for _, e := range []string{m.A, m.B} {
		x := api.MatchFits{Entity: e, Fits: []api.MatchFit{}}
		top := desk.NewTop[store.Match](maxFits)
		err := r.eachFit(e, func(f store.Match) error {
			x.Total++
			top.Add(f, api.Place{Confidence: f.Score, Key: keyOf(f)})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if x.Total < 2 {
			continue
		}
		is, err := r.entity(e)
		if err != nil {
			return nil, err
		}
		x.Name = is.name
		for _, p := range top.List() {
			f := p.Item
			o, err := r.entity(other(f, e))
			if err != nil {
				return nil, err
			}
			x.Fits = append(x.Fits, api.MatchFit{ID: fingerprint.MatchID(f.A, f.B), Key: keyOf(f), Entity: other(f, e), Name: o.name, State: words[f.State()],
				Method: f.Method, Score: graph.Round6(f.Score), Documents: o.documents})
		}
		out = append(out, x)
	}
	return out, nil
}

// planned is the plan of the match's approval as replies have it.
func (r *reader) planned(graphName string, m store.Match) (out api.Planned, err error) {
	p, err := r.plan(graphName, m)
	if err != nil {
		return out, err
	}
	out.Fingerprint = p.Fingerprint()
	out.Plan, out.PlanLeftOut = p.Within(planReplyBudget)
	return out, nil
}

// plan is what it means to say that the two are the same. It goes by the documents that mention either (of many, by their number), by what
// was found and decided, and by what else fits the two names.
func (r *reader) plan(graphName string, m store.Match) (*plan.Plan, error) {
	a, err := r.entity(m.A)
	if err != nil {
		return nil, err
	}
	b, err := r.entity(m.B)
	if err != nil {
		return nil, err
	}
	p := &plan.Plan{Graph: graphName, Item: keyOf(m), Decision: events.DecisionSame, Base: []plan.Base{}}
	c := plan.Change{Op: plan.Set, Kind: "state", Label: a.label, Source: a.name, SourceID: m.A, Target: b.name, TargetID: m.B,
		Value: api.StateApproved, Left: a.documents + b.documents}
	was := fmt.Sprintf("%s (%s %v", words[m.State()], m.Method, graph.Round6(m.Score))
	if m.Decided != "" {
		v, _, err := r.sn.Verdict(m.A, m.B)
		if err != nil {
			return nil, err
		}
		was += fmt.Sprintf(", decided %s %d", decisions[m.Decided], v.Seq)
	}
	for _, e := range []string{m.A, m.B} {
		also, err := r.also(m, e)
		if err != nil {
			return nil, err
		}
		was += also
	}
	c.Was = was + ")"
	p.Changes = []plan.Change{c}
	if c.Left <= desk.MaxDistinct {
		if p.Base, err = r.base(m); err != nil {
			return nil, err
		}
	}
	return p.Canonical(), nil
}

// also says what else fits the name of a side: a few by name, all of them by what their ids come to.
func (r *reader) also(m store.Match, e string) (string, error) {
	var ids, names []string
	err := r.eachFit(e, func(f store.Match) error {
		if o := other(f, e); o != other(m, e) {
			ids = append(ids, o+words[f.State()])
			if len(names) < maxWords {
				x, err := r.entity(o)
				if err != nil {
					return err
				}
				names = append(names, x.name+" "+words[f.State()])
			}
		}
		return nil
	})
	if err != nil || len(ids) == 0 {
		return "", err
	}
	is, err := r.entity(e)
	if err != nil {
		return "", err
	}
	if n := len(ids) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	return fmt.Sprintf("; also fit %s: %s, #%.8s", is.name, strings.Join(names, ", "), fingerprint.ContentHash(strings.Join(ids, " "))), nil
}

func (r *reader) base(m store.Match) (out []plan.Base, err error) {
	for _, e := range []string{m.A, m.B} {
		err := r.sn.Mentions(e, "", func(s store.MentionSupport) error {
			d, _, err := r.sn.Doc(s.DocID)
			out = append(out, plan.Base{Document: d.Meta.Key, Revision: d.Revision})
			return errorsOr(err, r.tick)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

func errorsOr(err error, then func() error) error {
	if err != nil {
		return err
	}
	return then()
}

// history is what was decided about a match, the choice of another one for its name too, the latest first.
func (r *reader) history(trail audit.Trail, m store.Match) ([]events.Audit, error) {
	all, err := trail.Of(keyOf(m))
	if err != nil || m.Decided == "" {
		return all, err
	}
	v, _, err := r.sn.Verdict(m.A, m.B)
	if err != nil || v.Of == "" {
		return all, err
	}
	more, err := trail.Of(v.Of)
	for _, x := range more {
		if x.Seq == v.Seq && x.Decision == events.DecisionChoose {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(a, b events.Audit) int { return cmp.Compare(b.No, a.No) })
	return all, err
}
