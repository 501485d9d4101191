package model

import (
	"encoding/hex"
	"slices"
	"strings"
	"unique"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// document is who says something. There are as many records as documents of a group, so each holds a handle of it.
type document struct{ key, id string }

// words of a record: what most records of a key share.
type body struct{ label, text, sourceText, targetText, sourceLabel, targetLabel string }

// record is what a list needs of a candidate record; the committer has the rest. A model of a million of them must be small.
type record struct {
	document   unique.Handle[document]
	body       *body
	reasons    unique.Handle[string] // joined
	at         unique.Handle[string]
	packed     string // id, chunk, quote
	seq        uint64
	confidence float64
	count      int
	start, end int32
}

// compact makes a record that holds nothing of what r was decoded from. like are records whose words it may share.
func compact(r *api.Record, like []*record) *record {
	packed := make([]byte, 0, 2*17+len(r.Quote))
	packed = pack(packed, r.ID)
	packed = pack(packed, r.ChunkID)
	packed = append(packed, r.Quote...)
	return &record{
		document: unique.Make(document{r.Document, r.DocumentID}), body: bodyOf(&r.Candidate, like), reasons: unique.Make(strings.Join(r.Reasons, "\x00")),
		at: unique.Make(r.At), packed: string(packed), seq: r.Seq, confidence: r.Confidence, count: r.Count, start: int32(r.Start), end: int32(r.End),
	}
}

// alike is how many records of a group are looked at for the same words.
const alike = 8

func bodyOf(c *graph.Candidate, like []*record) *body {
	b := body{c.Label, c.Text, c.SourceText, c.TargetText, c.SourceLabel, c.TargetLabel}
	for _, r := range like[:min(len(like), alike)] {
		if *r.body == b {
			return r.body
		}
	}
	return &body{intern(b.label), strings.Clone(b.text), strings.Clone(b.sourceText), strings.Clone(b.targetText), intern(b.sourceLabel), intern(b.targetLabel)}
}

func intern(s string) string { return unique.Make(s).Value() }

// A packed id is a length and the id, or, of a UUID, plainUUID and its 16 bytes.
const plainUUID = 0xff

func pack(to []byte, id string) []byte {
	if raw, ok := uuid(id); ok {
		return append(append(to, plainUUID), raw[:]...)
	}
	id = id[:min(len(id), plainUUID-1)]
	return append(append(to, byte(len(id))), id...)
}

// uuid reads a UUID as it is written in lower case.
func uuid(s string) (raw [16]byte, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || strings.ToLower(s) != s {
		return raw, false
	}
	_, err := hex.Decode(raw[:], []byte(s[:8]+s[9:13]+s[14:18]+s[19:23]+s[24:]))
	return raw, err == nil
}

func unpack(s string) (id, rest string) {
	n := int(s[0])
	if n != plainUUID {
		return s[1 : 1+n], s[1+n:]
	}
	h := hex.EncodeToString([]byte(s[1:17]))
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:], s[17:]
}

func (r *record) id() string {
	id, _ := unpack(r.packed)
	return id
}

// place is where the record was first seen.
func (r *record) sample() api.Sample {
	_, rest := unpack(r.packed)
	chunk, quote := unpack(rest)
	return api.Sample{Document: r.document.Value().key, Chunk: chunk, Quote: quote, Start: int(r.start), End: int(r.end)}
}

// saying is reasons and how many records have them. Most groups have one.
type saying struct {
	reasons unique.Handle[string]
	records int
}

// group is the records of one key and state.
type group struct {
	key, state, kind string
	records          []*record             // by key of the document, so that replicas agree on the first one
	next             *group                // of the same key in another state
	label            unique.Handle[string] // of the first record, folded

	// Sums of the records. unsure: the most confident one may have gone, and confidence is worked out when the group is put in order.
	count      int
	confidence float64
	unsure     bool
	// moved: the group is out of order, and waits in Graph.moved.
	moved bool

	// Which reasons the records have, and the newest record. old: that one went, and it is looked for when it is asked for.
	says     []saying
	revision uint64
	old      bool

	shape  unique.Handle[shape] // while the group is in order
	folded *body                // that label was made of
	entry  *entry               // in the index of words; nil when it is not there
}

// find says where the record of a document is or belongs.
func (gr *group) find(d document) (int, bool) {
	return slices.BinarySearchFunc(gr.records, d, func(r *record, d document) int {
		have := r.document.Value()
		if c := strings.Compare(have.key, d.key); c != 0 {
			return c
		}
		return strings.Compare(have.id, d.id)
	})
}

// add puts a record in at place i.
func (gr *group) add(i int, r *record) {
	gr.records = slices.Insert(gr.records, i, r)
	gr.count += r.count
	if r.confidence >= gr.confidence {
		gr.confidence, gr.unsure = r.confidence, false
	}
	gr.revision = max(gr.revision, r.seq)
	gr.say(r, 1)
}

// drop takes the record at place i out.
func (gr *group) drop(i int) *record {
	r := gr.records[i]
	gr.records = slices.Delete(gr.records, i, i+1)
	gr.count -= r.count
	gr.unsure = gr.unsure || r.confidence >= gr.confidence
	gr.old = gr.old || r.seq == gr.revision
	gr.say(r, -1)
	return r
}

// say counts a record's reasons.
func (gr *group) say(r *record, n int) {
	i := slices.IndexFunc(gr.says, func(x saying) bool { return x.reasons == r.reasons })
	if i < 0 {
		i, gr.says = len(gr.says), append(gr.says, saying{reasons: r.reasons})
	}
	if gr.says[i].records += n; gr.says[i].records == 0 {
		gr.says = slices.Delete(gr.says, i, i+1)
	}
}

// reasons are those of all records, sorted.
func (gr *group) reasons() []string {
	out := []string{}
	for _, x := range gr.says {
		if all := x.reasons.Value(); all != "" {
			out = append(out, strings.Split(all, "\x00")...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// newest is the revision.
func (gr *group) newest() uint64 {
	if gr.old {
		gr.revision, gr.old = 0, false
		for _, r := range gr.records {
			gr.revision = max(gr.revision, r.seq)
		}
	}
	return gr.revision
}

// best brings the confidence up to date.
func (gr *group) best() {
	if !gr.unsure {
		return
	}
	gr.confidence, gr.unsure = 0, false
	for _, r := range gr.records {
		gr.confidence = max(gr.confidence, r.confidence)
	}
}

// maxIDs of a group are listed.
const maxIDs = 100

// view makes the group's row. The text and sample are those of the smallest document key.
func (gr *group) view() api.Group {
	first := gr.records[0]
	b := first.body
	v := api.Group{
		Key: gr.key, Kind: gr.kind, Label: b.label, Text: b.text, SourceText: b.sourceText, TargetText: b.targetText, SourceLabel: b.sourceLabel,
		TargetLabel: b.targetLabel, State: gr.state, Count: gr.count, Confidence: gr.confidence, Documents: len(gr.records),
		IDs: make([]string, 0, min(len(gr.records), maxIDs)), Reasons: gr.reasons(), Sample: first.sample(), Revision: gr.newest(),
	}
	for _, r := range gr.records[:min(len(gr.records), maxIDs)] {
		v.IDs = append(v.IDs, r.id())
	}
	return v
}

// shape is what decides whether a schema covers a group. There are few of them.
type shape struct{ kind, state, label, sourceLabel, targetLabel, reasons string }

func (gr *group) shapeOf() unique.Handle[shape] {
	b := gr.records[0].body
	return unique.Make(shape{gr.kind, gr.state, b.label, b.sourceLabel, b.targetLabel, strings.Join(gr.reasons(), "\x00")})
}

// group is what a schema that covers groups looks at.
func (s shape) group() api.Group {
	g := api.Group{Kind: s.kind, State: s.state, Label: s.label, SourceLabel: s.sourceLabel, TargetLabel: s.targetLabel, Reasons: []string{}}
	if s.reasons != "" {
		g.Reasons = strings.Split(s.reasons, "\x00")
	}
	return g
}
