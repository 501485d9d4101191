package outbox

import (
	"context"
	"fmt"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// compare says which of a graph's rows lie in no stream. Rows of one subject are published in their order, so the last message of
// each subject tells. What is read once and then gone (a doc.found) is absent unless this process published it: rows up to sent.
func (s *Sender) compare(ctx context.Context, graph string, sent uint64) (absent func(store.OutboxRow) bool, err error) {
	there := map[string]uint64{} // by subject: the number of the last row that lies in its stream
	last := map[string]string{}  // by subject: the id of the last message
	for from := uint64(0); ; {
		rows, err := s.st.Outbox(graph, from, page)
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			from = r.No
			at, err := events.ParseSubject(r.Subject)
			if err != nil {
				return nil, fmt.Errorf("outbox row %d: %w", r.No, err)
			}
			if !bus.Kept(at.Kind) {
				there[r.Subject] = sent
				continue
			}
			id, asked := last[r.Subject]
			if !asked {
				if id, err = s.pub.LastID(ctx, r.Subject); err != nil {
					return nil, err
				}
				last[r.Subject] = id
			}
			if id == r.ID {
				there[r.Subject] = r.No
			}
		}
	}
	return func(r store.OutboxRow) bool { return r.No > there[r.Subject] }, nil
}
