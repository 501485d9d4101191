package query

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Seq answers query.seq.
func (q *Queries) Seq(ctx context.Context, name string) (api.SeqReply, error) {
	var out api.SeqReply
	err := q.with(ctx, name, 0, "", func(v *view) error {
		if v == nil {
			return nil
		}
		c, err := v.sn.Counts()
		out = api.SeqReply{Seq: v.sn.Seq(), No: c.CandidateNo, Approved: c.Decided[api.StateApproved], Rejected: c.Decided[api.StateRejected]}
		return err
	})
	return out, err
}

// surroundings of a quote that a record of one key is shown with, in bytes.
const surroundings = 200

var errPageFull = errors.New("page is full")

// Records answers query.records: candidate records for a read model that starts, or those of one key with the text around.
func (q *Queries) Records(ctx context.Context, name string, req api.RecordsGet) (api.RecordsReply, error) {
	out := api.RecordsReply{Records: []api.Record{}}
	var from store.CandidateCursor
	if req.Cursor != "" {
		if err := decodeCursor("records", req.Cursor, &from); err != nil {
			return out, err
		}
	}
	err := q.with(ctx, name, req.Seq, "", func(v *view) error {
		if v == nil {
			return nil
		}
		c, err := v.sn.Counts()
		if err != nil {
			return err
		}
		out.Seq, out.No = v.sn.Seq(), c.CandidateNo
		room := newBudget()
		last := from
		add := func(r store.CandidateRecord) error {
			if err := v.tick(); err != nil {
				return err
			}
			rec, err := v.record(r, req.Key != "")
			if err != nil {
				return err
			}
			if !room.take(recordCost(rec)) {
				out.Next = encodeCursor("records", last)
				return errPageFull
			}
			out.Records = append(out.Records, rec)
			last = store.CandidateCursor{Key: r.Key, DocID: r.DocID}
			return nil
		}
		if req.Key != "" {
			err = v.recordsOf(req, add)
		} else {
			err = v.sn.CandidateAll(from, add)
		}
		if errors.Is(err, errPageFull) {
			return nil
		}
		return err
	})
	return out, err
}

// recordsOf calls fn for the records of a key.
func (v *view) recordsOf(req api.RecordsGet, fn func(store.CandidateRecord) error) error {
	first := ""
	if req.First != "" {
		r, ok, err := v.sn.Candidate(fingerprint.DocumentID(req.First), req.Key)
		if err == nil && ok {
			first, err = r.ID, fn(r)
		}
		if err != nil {
			return err
		}
	}
	return v.sn.CandidatesByKey(req.Key, func(r store.CandidateRecord) error {
		if r.ID == first {
			return nil
		}
		return fn(r)
	})
}

// record is a stored record as the review desk shows it.
func (v *view) record(r store.CandidateRecord, around bool) (api.Record, error) {
	d, err := v.doc(r.DocID)
	if err != nil {
		return api.Record{}, err
	}
	rec := api.Record{Seq: r.Seq, CandidateItem: events.CandidateItem{
		ID: r.ID, Document: d.Meta.Key, DocumentID: r.DocID, ContentHash: r.ContentHash, State: r.State, Quote: r.Quote,
		ChunkID: fingerprint.ChunkID(r.DocID, r.ContentHash, r.ChunkerFP, r.Chunk), Scope: d.Meta.Scope, At: r.At, Candidate: r.Candidate,
	}}
	if !around {
		return rec, nil
	}
	rec.Version, rec.SchemaVersion, rec.SchemaFP, rec.ExtractionFP = r.Version, r.SchemaVersion, r.SchemaFP, r.ExtractionFP
	at, err := v.at(r.DocID, r.Version)
	if err != nil {
		return rec, fmt.Errorf("candidate %s: %w", r.ID, err)
	}
	text, err := v.textOf(at)
	if err != nil {
		return rec, err
	}
	if r.Start > r.End || r.End > len(text) {
		return rec, fmt.Errorf("%w: candidate %s is outside its document", store.ErrCorrupt, r.ID)
	}
	rec.Before = text[border(text, max(0, r.Start-surroundings)):r.Start]
	rec.After = text[r.End:border(text, min(len(text), r.End+surroundings))]
	return rec, nil
}

// border moves an offset to the next start of a rune.
func border(text string, at int) int {
	for at < len(text) && !utf8.RuneStart(text[at]) {
		at++
	}
	return at
}

func recordCost(r api.Record) int {
	n := 700 + textCost(r.Document) + textCost(r.Quote) + textCost(r.Key) + textCost(r.Text) + textCost(r.SourceText) +
		textCost(r.TargetText) + textCost(r.Before) + textCost(r.After) + textCost(r.Label) + 60*len(r.More)
	for _, s := range r.Scope {
		n += textCost(s)
	}
	return n
}
