package audit

import (
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/plan"
)

// Seen is the evidence that a plan quotes, as records have it: Audit.Saw takes as much of it as there is room for.
func Seen(p *plan.Plan) []events.AuditEvidence {
	var out []events.AuditEvidence
	for _, c := range p.Changes {
		for _, q := range c.Quotes {
			if c.Document != "" && q.Text != "" && len(out) < events.MaxAuditEvidence {
				out = append(out, events.AuditEvidence{Document: c.Document, Version: q.Version, Start: q.Start, End: q.End, Quote: q.Text})
			}
		}
	}
	return out
}
