package query

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	// maxGroup is how many documents of one candidate key are sorted in memory; for more, all documents are walked by key.
	maxGroup = 1 << 16
	// maxKept is how many records of them are kept too; the others are read again.
	maxKept = 256
)

// lastID is behind every document id.
const lastID = "ffffffff-ffff-ffff-ffff-ffffffffffff"

// sighting is a document that has a record of the candidate key at hand. The record is nil where it was not kept.
type sighting struct {
	docKey, docID string
	record        *store.CandidateRecord
}

// candidates writes candidates by key and document key. The store has them by key and document id, so a key's documents are
// gathered first.
func (x *exporter) candidates(at exportAt) error {
	if !x.req.Canonical && !x.req.Candidates {
		return nil
	}
	if at.After != "" { // what is left of the key where the position lies
		if err := x.group(at.After, at.Doc, at); err != nil {
			return err
		}
	}
	for after := at.After; ; {
		var next string
		err := x.v.sn.CandidateAll(store.CandidateCursor{Key: after, DocID: firstCursor(after)}, func(r store.CandidateRecord) error {
			next = r.Key
			return store.ErrStop
		})
		if err != nil || next == "" {
			return err
		}
		if err := x.group(next, "", at); err != nil {
			return err
		}
		after = next
	}
}

// firstCursor is the document id that puts a cursor behind all records of a key; without a key the cursor is empty.
func firstCursor(key string) string {
	if key == "" {
		return ""
	}
	return lastID
}

// group writes the records of one key, those of documents behind a document key.
func (x *exporter) group(key, behind string, at exportAt) error {
	var list []sighting
	large := false
	err := x.v.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		d, err := x.v.doc(r.DocID)
		if err != nil || d.Meta.Key <= behind {
			return err
		}
		if len(list) == x.maxGroup {
			large, list = true, nil
			return store.ErrStop
		}
		s := sighting{docKey: d.Meta.Key, docID: r.DocID}
		if len(list) < maxKept {
			s.record = &r
		}
		list = append(list, s)
		return nil
	})
	if err != nil {
		return err
	}
	if large {
		return x.v.sn.Docs(behind, func(d store.Doc) error {
			return x.candidate(key, sighting{docKey: d.Meta.Key, docID: d.Meta.ID}, at)
		})
	}
	slices.SortFunc(list, func(a, b sighting) int { return strings.Compare(a.docKey, b.docKey) })
	for _, s := range list {
		if err := x.candidate(key, s, at); err != nil {
			return err
		}
	}
	return nil
}

// fullCandidate is a candidate's row outside the canonical export.
type fullCandidate struct {
	graph.CandidateRow
	ID    string `json:"id"`
	State string `json:"state"`
	At    string `json:"at"`
	Job   string `json:"job,omitempty"`
}

// candidate writes a document's record of a key, if it has one that is shown.
func (x *exporter) candidate(key string, s sighting, at exportAt) error {
	if err := x.v.tick(); err != nil {
		return err
	}
	if s.record == nil {
		r, ok, err := x.v.sn.Candidate(s.docID, key)
		if err != nil || !ok {
			return err
		}
		s.record = &r
	}
	r := *s.record
	show, err := x.shows(r)
	if err != nil || !show {
		return err
	}
	pos := exportAt{Seq: at.Seq, Phase: phaseCandidates, After: key, Doc: s.docKey}
	row := candidateRow(r, s.docKey)
	if x.req.Canonical {
		return x.json(row, pos)
	}
	row.DocumentID = s.docID
	return x.json(fullCandidate{row, r.ID, r.State, r.At, r.Job}, pos)
}

// shows admits pending records, and approved ones whose chunk is open.
func (x *exporter) shows(r store.CandidateRecord) (bool, error) {
	if r.State == api.StatePending {
		return true, nil
	}
	if r.State != api.StateApproved {
		return false, nil
	}
	d, err := x.v.doc(r.DocID)
	return d.Open && d.Version == r.Version, err
}

func candidateRow(r store.CandidateRecord, docKey string) graph.CandidateRow {
	reasons := slices.Clone(r.Reasons)
	if reasons == nil {
		reasons = []string{}
	}
	slices.Sort(reasons)
	return graph.CandidateRow{CandidateKind: r.Kind, Chunk: fingerprint.ChunkID(r.DocID, r.ContentHash, r.ChunkerFP, r.Chunk),
		Confidence: graph.Round6(r.Confidence), Count: r.Count, Document: docKey, End: r.End, Key: r.Key, Kind: "candidate",
		Label: r.Label, Reasons: reasons, SourceEntity: r.SourceEntity, SourceText: r.SourceText, Start: r.Start,
		TargetEntity: r.TargetEntity, TargetText: r.TargetText, Text: r.Text}
}
