package held

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/plan"
	"github.com/factmill/factmill/services/committer/internal/jobs"
)

// plan is what accepting the job would do: as much of it as budget bytes hold, and the fingerprint of all. It is made document by document;
// what is larger than keep is made twice, since a fingerprint begins with how many changes there are.
func (d *Desk) plan(ctx context.Context, graphName string, a jobs.Applied, budget int) (api.Planned, error) {
	p := &plan.Plan{Graph: graphName, Item: api.JobKey(a.Job.ID), Decision: api.DecideAccept, Base: []plan.Base{}, Changes: []plan.Change{},
		Schema: a.Job.SchemaFP, Extraction: a.Job.ExtractionFP}
	total, size := 0, 0
	for _, doc := range a.Documents {
		base, changes, err := a.Txn.Effect(ctx, doc.Key, doc.Result)
		if err != nil {
			return api.Planned{}, err
		}
		p.Base = append(p.Base, base)
		total += len(changes)
		for _, c := range changes {
			if size > d.keep {
				break
			}
			size += c.Size()
			p.Changes = append(p.Changes, c)
		}
	}
	made := api.Planned{}
	if len(p.Changes) == total {
		made.Fingerprint = p.Fingerprint()
	} else {
		s := plan.NewStream(*p, len(p.Base), total)
		for _, b := range p.Base {
			s.Base(b)
		}
		for _, doc := range a.Documents {
			_, changes, err := a.Txn.Effect(ctx, doc.Key, doc.Result)
			if err != nil {
				return made, err
			}
			for _, c := range changes {
				s.Change(c)
			}
		}
		var err error
		if made.Fingerprint, err = s.Sum(); err != nil {
			return made, fmt.Errorf("plan of job %s: %w", a.Job.ID, err)
		}
	}
	bases := len(p.Base)
	made.Plan, made.PlanLeftOut = p.Within(budget)
	made.PlanLeftOut = total - len(made.Plan.Changes) + bases - len(made.Plan.Base)
	return made, nil
}
