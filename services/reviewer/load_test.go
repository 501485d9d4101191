package reviewer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/testkit"
)

// librarian is a committer that is always at one place, whose pages a test gives out.
type librarian struct {
	deskOfMatches
	pages func(ctx context.Context, req api.RecordsGet) (api.RecordsReply, error)
}

func (l *librarian) Seq(context.Context, string) (api.SeqReply, error) {
	return api.SeqReply{Seq: 1, No: 1}, nil
}

func (l *librarian) Records(ctx context.Context, _ string, req api.RecordsGet) (api.RecordsReply, error) {
	return l.pages(ctx, req)
}

func (l *librarian) Schema(context.Context, string) (api.SchemaReply, error) {
	return api.SchemaReply{Fingerprint: "x", Schema: json.RawMessage(`{"name":"x","entities":[{"label":"Person"}]}`)}, nil
}

// A load outlives the requests that wait for it, which are told how far it is; they share one, and one that fails is begun anew.
func TestALoadOutlivesItsRequests(t *testing.T) {
	testkit.NoLeaks(t)
	var asked atomic.Int64
	last := make(chan error)
	c := &librarian{pages: func(ctx context.Context, req api.RecordsGet) (api.RecordsReply, error) {
		asked.Add(1)
		if req.Cursor == "" {
			return api.RecordsReply{Seq: 1, No: 1, Next: "2", Records: []api.Record{candidate("entity|l|a", api.StatePending, "L", "alder", 1)}}, nil
		}
		select {
		case err := <-last:
			return api.RecordsReply{Seq: 1, No: 1, Records: []api.Record{candidate("entity|l|b", api.StatePending, "L", "birch", 1)}}, err
		case <-ctx.Done():
			return api.RecordsReply{}, ctx.Err()
		}
	}}
	d := newDesk(c)
	base, stop := context.WithCancel(t.Context())
	d.base = base
	late, cancel := context.WithDeadline(t.Context(), time.Unix(0, 0))
	defer cancel()
	testkit.Await(t, "the first page", func() bool {
		_, err := d.list(late, "g", nil)
		e := asError(err)
		require.Equal(t, []any{503, "not_ready"}, []any{e.Status, e.Code})
		return e.Message == "the review desk still reads the candidates of graph g (1 so far): ask again in a moment"
	})
	answers := make(chan error, 3)
	for range cap(answers) {
		go func() {
			_, err := d.list(t.Context(), "g", nil)
			answers <- err
		}()
	}
	last <- nil
	for range cap(answers) {
		require.NoError(t, testkit.Receive(t, "an answer", answers))
	}
	v, err := d.list(t.Context(), "g", nil)
	require.NoError(t, err)
	require.Len(t, v.(api.ReviewListReply).Groups, 2)
	require.Equal(t, int64(2), asked.Load())

	d.forget()
	go func() {
		_, err := d.list(t.Context(), "g", nil)
		answers <- err
	}()
	last <- errors.New("the disk is wet")
	require.ErrorContains(t, testkit.Receive(t, "an answer", answers), "load candidates of g: the disk is wet")
	go func() {
		_, err := d.list(t.Context(), "g", nil)
		answers <- err
	}()
	last <- nil
	require.NoError(t, testkit.Receive(t, "an answer", answers))

	d.forget()
	_, err = d.list(late, "g", nil)
	require.Error(t, err)
	stop()
	d.loads.Wait()
}

// BenchmarkLoad is a fresh reviewer's first list of 1,000,000 candidates in 200,000 groups, from the JSON of the committer's pages on; what
// the committer does for them is not in it.
func BenchmarkLoad(b *testing.B) {
	const n, perPage = 1_000_000, 900
	for b.Loop() {
		var making time.Duration
		var bytes int
		at := 0
		c := &librarian{pages: func(context.Context, api.RecordsGet) (r api.RecordsReply, err error) {
			began := time.Now()
			page := api.RecordsReply{Seq: 1, No: 1}
			for ; at < n && len(page.Records) < perPage; at++ {
				page.Records = append(page.Records, wide(at))
			}
			if at < n {
				page.Next = "more"
			}
			body, err := json.Marshal(page)
			bytes += len(body)
			making += time.Since(began)
			if err == nil {
				err = json.Unmarshal(body, &r)
			}
			return r, err
		}}
		began := time.Now()
		v, err := newDesk(c).list(b.Context(), "g", nil)
		if err != nil {
			b.Fatal(err)
		}
		if total := v.(api.ReviewListReply).Total; total != n/5 {
			b.Fatalf("%d groups", total)
		}
		b.ReportMetric((time.Since(began) - making).Seconds(), "s/load")
		b.ReportMetric(float64(bytes)/n, "B/record")
	}
}

// wide is record number n as the committer has it.
func wide(n int) api.Record {
	group, doc := n/5, fmt.Sprintf("reports/2026/%07d.txt", n%50_021)
	id := fingerprint.DocumentID(doc)
	text := fmt.Sprintf("Observatory Number %d", group)
	r := candidate(fingerprint.EntityKey("Observatory", text), api.StatePending, "Observatory", text, 1+group%97)
	r.Document, r.DocumentID, r.ContentHash, r.ChunkID, r.ID = doc, id, fingerprint.ContentHash(doc), id, fingerprint.DocumentID(fmt.Sprint(n))
	r.Quote, r.At, r.Extractor = fmt.Sprintf("In the autumn, observatory %d was said to work with institute %d.", group, group*7), "2026-03-01T00:00:00Z", "rules"
	return r
}
