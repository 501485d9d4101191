package store

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

const (
	maxQuote = 500       // bytes of a candidate's quote
	maxItems = 150 << 10 // bytes of the items of one candidate event, of which one item may be more
)

// candBatch names the candidate event that is being filled.
type candBatch struct{ verb, kind string }

type pendingItems struct {
	items []events.CandidateItem
	size  int
}

// docRecords reads the candidate records of a document.
func (t *Txn) docRecords(doc id) (map[string]CandidateRecord, error) {
	out := map[string]CandidateRecord{}
	it, err := t.iter(false)
	if err != nil {
		return nil, err
	}
	add := func(v []byte) error {
		var r CandidateRecord
		if err := decodeJSON(v, &r); err != nil {
			return fmt.Errorf("candidate of document %s: %w", doc, err)
		}
		out[r.Key] = r
		return nil
	}
	err = scanRows(it, newKey(t.g.id, spaceCand).id(doc), nil, t.seq, false, func(_ key, v []byte) error { return add(v) })
	if err != nil {
		return nil, err
	}
	for _, k := range t.docCands[doc] {
		delete(out, k)
		if v := t.rows[string(candKey(t.g.id, doc, k))]; len(v) > 0 {
			if err := add(v); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func candKey(g uint32, doc id, k string) key { return newKey(g, spaceCand).id(doc).str(k) }

func candGroupKey(g uint32, k string, doc id) key { return newKey(g, spaceCandKey).str(k).id(doc) }

// putRecord writes a record and its look-up by key, and counts it.
func (t *Txn) putRecord(doc id, was, now *CandidateRecord) error {
	k := ""
	if was != nil {
		k = was.Key
		if was.State == api.StatePending {
			t.counts.Candidates--
		}
	}
	var row, group []byte
	if now != nil {
		k = now.Key
		if now.State == api.StatePending {
			t.counts.Candidates++
		}
		var err error
		if row, err = encodeJSON(now); err != nil {
			return err
		}
		group = encodeGroup(now)
	}
	if err := t.feedCandidate(was, now); err != nil {
		return err
	}
	t.put(candKey(t.g.id, doc, k), row)
	t.put(candGroupKey(t.g.id, k, doc), group)
	t.docCands[doc] = append(t.docCands[doc], k)
	if now == nil || was != nil && was.ID == now.ID {
		return nil
	}
	ik, err := candIDKey(t.g.id, now.ID)
	if err != nil {
		return err
	}
	// The row stays when the record goes or gets another id: who asks by an old id is told the key.
	t.put(ik, candLead(doc, k))
	return nil
}

func candIDKey(g uint32, recordID string) (key, error) {
	v, err := mustID(recordID)
	return newKey(g, spaceCandID).id(v), err
}

// candLead is the value of that row.
func candLead(doc id, k string) []byte { return make(writer, 0, idLen+len(k)+2).id(doc).str(k) }

func encodeGroup(r *CandidateRecord) []byte {
	return make(writer, 0, 32).str(r.State).uint(r.Count).float(r.Confidence)
}

func (t *Txn) decision(k string) (Decision, bool, error) {
	var d Decision
	v, ok, err := t.load(newKey(t.g.id, spaceDecision).str(k))
	if err != nil || !ok {
		return d, false, err
	}
	return d, true, decodeJSON(v, &d)
}

// candidates replaces the document's pending records by those of this reading.
func (a *application) candidates(now *statements, chunks []graph.Chunk, inPlace bool, wasText string) error {
	var stored map[string]CandidateRecord
	if a.known {
		var err error
		if stored, err = a.t.docRecords(a.doc); err != nil {
			return err
		}
	}
	wanted := map[string]*CandidateRecord{}
	if !a.c.NoCandidates {
		a.wantedRecords(wanted)
		a.keepRecords(wanted, stored, now, chunks, inPlace, wasText)
		if err := a.keepEdited(wanted, stored, chunks, inPlace); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(stored)) {
		was := stored[k]
		if wanted[k] == nil && was.State == api.StatePending {
			if err := a.t.putRecord(a.doc, &was, nil); err != nil {
				return err
			}
			if err := a.t.tell("withdrawn", was, a.d.Meta.Key, a.c.Meta.Scope); err != nil {
				return err
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(wanted)) {
		if err := a.writeRecord(stored, wanted[k]); err != nil {
			return err
		}
	}
	return nil
}

func (a *application) writeRecord(stored map[string]CandidateRecord, r *CandidateRecord) error {
	d, decided, err := a.t.decision(r.Key)
	if err != nil {
		return err
	}
	was, had := stored[r.Key]
	if decided && d.State == api.StateRejected {
		a.res.CandidatesSuppressed++
		if had && was.State == api.StatePending {
			return a.t.putRecord(a.doc, &was, nil)
		}
		return nil
	}
	if decided {
		r.State = d.State
	}
	a.res.CandidatesWritten++
	if had && sameRecord(was, *r) {
		return nil
	}
	var old *CandidateRecord
	if had {
		old = &was
		if was.ID != r.ID {
			if err := a.t.tell("withdrawn", was, a.d.Meta.Key, a.c.Meta.Scope); err != nil {
				return err
			}
		}
	}
	if err := a.t.putRecord(a.doc, old, r); err != nil {
		return err
	}
	return a.t.tell("proposed", *r, a.c.Meta.Key, a.c.Meta.Scope)
}

// sameRecord compares all but who wrote it when.
func sameRecord(a, b CandidateRecord) bool {
	a.Seq, a.At, a.Job, b.Seq, b.At, b.Job = 0, "", "", 0, "", ""
	return reflect.DeepEqual(a, b)
}

// wantedRecords are the records of what this reading kept out; sightings of one key are one record.
func (a *application) wantedRecords(out map[string]*CandidateRecord) {
	for _, c := range a.c.Assertions.Candidates {
		if r := out[c.Key]; r != nil {
			r.Count += c.Count
			r.Confidence = max(r.Confidence, c.Confidence)
			continue
		}
		out[c.Key] = a.newRecord(c)
	}
}

func (a *application) checkCandidates(chunks []graph.Chunk) error {
	for _, c := range a.c.Assertions.Candidates {
		if c.Key == "" {
			return badChange(a.c.Meta.Key, "a candidate has no key")
		}
		if err := checkSpan(a.c.Meta.Key, a.c.Text, chunks, c.Chunk, c.Start, c.End); err != nil {
			return err
		}
		for _, m := range c.More {
			if err := checkSpan(a.c.Meta.Key, a.c.Text, chunks, m[0], m[1], m[2]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *application) newRecord(c graph.Candidate) *CandidateRecord {
	return &CandidateRecord{
		ID:    fingerprint.CandidateID(a.c.Meta.ID, c.Key, a.c.ContentHash, a.c.ChunkerFP, a.c.SchemaFP, a.c.ExtractionFP),
		DocID: a.c.Meta.ID, State: api.StatePending, Version: a.d.Version, ContentHash: a.c.ContentHash, ChunkerFP: a.c.ChunkerFP,
		SchemaFP: a.c.SchemaFP, SchemaVersion: a.c.SchemaVersion, SchemaRevision: a.c.SchemaRevision, ExtractionFP: a.c.ExtractionFP,
		Quote: clipBytes(a.c.Text[c.Start:c.End], maxQuote), Seq: a.t.seq, At: a.t.at, Job: a.c.Job, Candidate: c,
	}
}

// keepRecords carries over pending records of text that was not read whole.
func (a *application) keepRecords(out map[string]*CandidateRecord, stored map[string]CandidateRecord, now *statements, chunks []graph.Chunk, inPlace bool, wasText string) {
	if len(now.states) == 0 {
		return
	}
	places := now.anchors(a.c.Text, chunks)
	for k, r := range stored {
		if out[k] != nil || r.State != api.StatePending {
			continue
		}
		if inPlace {
			if _, unread := now.states[r.Chunk]; unread {
				out[k] = &r
			}
			continue
		}
		if r.End > len(wasText) || r.Start > r.End {
			continue
		}
		chunk, start, end, ok := places.find(wasText[r.Start:r.End])
		if !ok {
			continue
		}
		c := r.Candidate
		c.Chunk, c.Start, c.End, c.More, c.Count = chunk, start, end, nil, 1
		out[k] = a.newRecord(c)
	}
}

func (a *application) dropCandidates() error {
	stored, err := a.t.docRecords(a.doc)
	if err != nil {
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(stored)) {
		was := stored[k]
		if was.State != api.StatePending {
			continue
		}
		if err := a.t.putRecord(a.doc, &was, nil); err != nil {
			return err
		}
		if err := a.t.tell("withdrawn", was, a.d.Meta.Key, a.d.Meta.Scope); err != nil {
			return err
		}
	}
	return nil
}

// tell puts a record into the candidate event of its verb and kind.
func (t *Txn) tell(verb string, r CandidateRecord, key string, scope []string) error {
	b := candBatch{verb, r.Kind}
	p := t.cands[b]
	if p == nil {
		p = &pendingItems{}
		t.cands[b] = p
	}
	item := events.CandidateItem{ID: r.ID, Document: key, DocumentID: r.DocID, ContentHash: r.ContentHash, State: r.State, Quote: r.Quote, At: r.At,
		ChunkID: fingerprint.ChunkID(r.DocID, r.ContentHash, r.ChunkerFP, r.Chunk), Scope: scope, Candidate: r.Candidate}
	encoded, err := encodeJSON(item) // texts, labels and scopes may need six times their length
	if err != nil {
		return err
	}
	size := len(encoded) + len(",")
	if p.size > 0 && p.size+size > maxItems {
		// All that were begun: a reader must not see a record come before its predecessor goes.
		if err := t.emitItems(); err != nil {
			return err
		}
	}
	p.items = append(p.items, item)
	p.size += size
	return nil
}

func (t *Txn) emitBatch(b candBatch, p *pendingItems) error {
	t.counts.CandidateNo++
	err := t.emit(&events.CandidateEvent{Graph: t.g.name, Verb: b.verb, Kind: b.kind, Seq: t.seq, No: t.counts.CandidateNo, Job: t.job, Items: p.items})
	p.items, p.size = nil, 0
	return err
}

// emitItems writes the candidate events that were begun: what went before what came.
func (t *Txn) emitItems() error {
	batches := slices.SortedFunc(maps.Keys(t.cands), func(a, b candBatch) int {
		return -strings.Compare(a.verb+"|"+a.kind, b.verb+"|"+b.kind)
	})
	for _, b := range batches {
		if p := t.cands[b]; len(p.items) > 0 {
			if err := t.emitBatch(b, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// clipBytes cuts s to at most n bytes at a rune border.
func clipBytes(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
