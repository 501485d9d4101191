package candidates

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/patch"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func checkConvert(req *api.ReviewConvert) error {
	switch req.ErrorPolicy {
	case "", api.PolicyRaise, api.PolicySkip, api.PolicyQuarantine:
	default:
		return api.Errorf(400, "bad_value", "error_policy is %.40q: it must be raise, skip or quarantine", req.ErrorPolicy)
	}
	if req.Actor == "" {
		req.Actor = unnamed
	}
	return checkWho(req.Actor, req.Reason)
}

// Convert answers candidates.convert: what the approved candidates of a patch state becomes facts of their documents, in one commit.
// No model is asked.
func (d *Desk) Convert(ctx context.Context, graph string, req api.ReviewConvert) (reply api.ConvertReport, err error) {
	if err := checkConvert(&req); err != nil {
		return reply, err
	}
	p, err := d.patchOf(graph, req)
	if err != nil {
		return reply, err
	}
	err = d.deps.Operations.Within(ctx, graph, "candidates.convert", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		reply = api.ConvertReport{PatchID: p.PatchID, Skipped: map[string]string{}, Entities: map[string]string{}, Failures: []api.ConvertFailure{}}
		err := d.write(ctx, graph, who{req.Actor, req.Reason, req.RequestID}, func(c *commit) error {
			s, err := d.deps.Schemas.Schema(graph, 0)
			if err != nil {
				return err
			}
			if missing := p.Missing(s); len(missing) > 0 {
				return notApplied(p, s, missing)
			}
			return newConversion(c, s, &reply).run(p.CandidateIDs)
		}, func(seq uint64, _ []events.Audit) { reply.Seq = seq }, remember)
		if errors.Is(err, store.ErrNoGraph) {
			v := conversion{reply: &reply}
			for _, id := range p.CandidateIDs {
				v.skip(id, api.SkippedNotApproved)
			}
			return nil
		}
		return err
	})
	if err != nil || reply.Records == 0 || d.deps.Behind == nil {
		return reply, err
	}
	if err := d.deps.Behind(ctx, graph, reply.Seq); err != nil {
		reply.Failures = append(reply.Failures, api.ConvertFailure{Stage: api.StageLinker, Code: "embedding_failed", Message: err.Error()})
	}
	if len(reply.Failures) > 0 && cmp.Or(req.ErrorPolicy, api.PolicyRaise) == api.PolicyRaise {
		e := api.Errorf(502, "committed_with_failures", "the conversion is committed at sequence %d; behind it failed: %s. It is tried again by itself", reply.Seq, reply.Failures[0].Message)
		e.Details = map[string]any{"report": reply}
		return reply, e
	}
	return reply, nil
}

// maxMissing bytes of what a schema lacks are named.
const maxMissing = 500 << 10

func notApplied(p *patch.Patch, s *schema.Schema, missing []string) error {
	shown, size := 0, 0
	for shown < len(missing) && size+len(missing[shown])+4 <= maxMissing {
		size += len(missing[shown]) + 4
		shown++
	}
	first := strings.Join(missing[:min(5, len(missing))], ", ")
	if len(missing) > 5 {
		first += ", …"
	}
	e := api.Errorf(409, "patch_not_applied", "the active schema %s %s lacks %d additions of patch %s: %.500s. Apply the patch to the schema file and put it (schema apply-patch, schema put)",
		s.Name(), s.Version(), len(missing), p.PatchID, first)
	e.Details = map[string]any{"missing": missing[:shown], "missing_total": len(missing)}
	return e
}

// conversion is one request's way through the records.
type conversion struct {
	c     *commit
	s     *schema.Schema
	ends  *Ends
	reply *api.ConvertReport
	shown int

	items []*item // by document, then key
	// made is what entity candidates have become, by key: several things where people edited records of one key apart.
	made map[string][]ref
	// relations and entities that are counted already, by id.
	counted map[string]bool
}

// item is a record and what it states, in the terms of the document's open version.
type item struct {
	r      store.CandidateRecord
	places []place
	// The entity that it is, or the ends of the relation, or the holder of the property.
	source, target ref
	label          string // as the schema spells it
	value          any
	why            string // it is not converted; "" it is
}

// place is a span of a chunk, and what is written there.
type place struct {
	chunk, start, end int
	name              string
}

// ref is an entity that is, or will be with this commit.
type ref struct{ id, label, key string }

func newConversion(c *commit, s *schema.Schema, reply *api.ConvertReport) *conversion {
	return &conversion{c: c, s: s, ends: NewEnds(c.ctx, c.sn, s), reply: reply, made: map[string][]ref{}, counted: map[string]bool{}}
}

func (v *conversion) run(ids []string) error {
	for _, step := range []func() error{
		func() error { return v.collect(ids) }, v.anchor, v.entities, v.relations, v.properties, v.state, v.record,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// skip says why an item is not converted; of many the first ones are named.
func (v *conversion) skip(id, why string) {
	v.reply.SkippedTotal++
	if size := len(id) + len(why) + 8; v.shown+size <= maxShown {
		v.shown += size
		v.reply.Skipped[id] = why
	}
}

// collect finds the approved records of the patch's keys: those that it names, and those that came since.
func (v *conversion) collect(ids []string) error {
	keys := map[string]bool{}
	for _, id := range ids {
		if err := v.c.ctx.Err(); err != nil {
			return err
		}
		doc, key, _, err := v.c.sn.CandidateByID(strings.ToLower(id))
		if err != nil {
			return err
		}
		var r store.CandidateRecord
		ok := false
		if key != "" { // under another id when the document was read again
			if r, ok, err = v.c.sn.Candidate(doc, key); err != nil {
				return err
			}
		}
		if !ok || r.State != api.StateApproved {
			v.skip(id, api.SkippedNotApproved)
			continue
		}
		keys[key] = true
	}
	for _, key := range sortedKeys(keys) {
		err := v.c.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
			if r.State != api.StateApproved {
				return nil
			}
			if len(v.items) == maxPatchRecords {
				return tooManyRecords()
			}
			v.items = append(v.items, &item{r: r})
			return v.c.ctx.Err()
		})
		if err != nil {
			return err
		}
	}
	slices.SortFunc(v.items, func(a, b *item) int {
		return cmp.Or(strings.Compare(a.r.DocID, b.r.DocID), strings.Compare(a.r.Key, b.r.Key))
	})
	return nil
}

// record tells of every item what became of it, and writes the audit record of each key.
func (v *conversion) record() error {
	byKey := map[string]*seen{}
	for _, it := range v.items {
		if it.why != "" {
			v.skip(it.r.ID, it.why)
			continue
		}
		v.reply.Records++
		if it.r.Kind == schema.KindEntity {
			v.reply.EntitiesTotal++
			if size := len(it.r.ID) + len(it.source.id) + 6; v.shown+size <= maxShown {
				v.shown += size
				v.reply.Entities[it.r.ID] = it.source.id
			}
		}
		s := byKey[it.r.Key]
		if s == nil {
			s = &seen{}
			byKey[it.r.Key] = s
		}
		if err := s.add(v.c, &it.r); err != nil {
			return err
		}
	}
	plans := v.c.desk.planner(v.c.ctx, v.c.graph, v.c.sn, v.ends)
	for _, key := range sortedKeys(byKey) {
		s := byKey[key]
		p, err := plans.plan(key)
		if err != nil {
			return err
		}
		a, err := v.c.record(key, s.id(), events.DecisionConvert, api.StateApproved, api.StateConverted, *s)
		if err != nil {
			return err
		}
		a.Plan = p.Fingerprint()
		a.Saw(s.evidence...)
	}
	return nil
}
