package jobs

import (
	"context"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
)

// refuseUnopened ends jobs that were never opened: the loader gave their document event up (it is a dead letter) before it could
// ask. Else whoever waits for such a job would wait for ever. Callers hold stageMu.
func (m *Machine) refuseUnopened(ctx context.Context, in []bus.Delivery) error {
	for _, d := range in {
		e, ok := d.Event.(*events.Sealed)
		if !ok || e.Refused == nil || e.Job.At.Seq == 0 {
			continue
		}
		rec, err := m.record(e.Job.Graph, e.Job.ID)
		if err != nil {
			return err
		}
		if rec != nil {
			continue
		}
		jc, err := m.graphs.JobContext(e.Job.Graph)
		if err != nil {
			return err
		}
		job := jc.Job
		job.Graph, job.ID, job.Attempt, job.Op, job.ErrorPolicy, job.At = e.Job.Graph, e.Job.ID, 1, events.OpAdd, events.PolicyRaise, e.Job.At
		rec = &Record{
			Job: job, Atomic: events.AtomicJob, SchemaName: jc.SchemaName, SchemaVer: jc.SchemaVer, OpenedAt: m.cfg.Now(),
		}
		if _, err := m.refuse(ctx, rec, *e.Refused); err != nil {
			return err
		}
	}
	return nil
}
