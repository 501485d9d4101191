package query

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	verbDocument = "document"
	maxVersions  = 1000 // listed, the newest
)

// documentAt is where a page of a document ends: how many chunks, bytes of text and items were given.
type documentAt struct {
	Seq     uint64 `json:"s"`
	Version int    `json:"v"`
	Chunks  int    `json:"c"`
	Text    int    `json:"t"`
	Items   int    `json:"i"`
}

// Document answers query.document: the open version, or the one asked for; of a deleted document without a version what is known of it, but
// nothing that it said. Meta data is the document's present
// one; content hash and fingerprints are the version's. A document too large for one reply comes in pages: its chunks, then
// its text, then its items.
func (q *Queries) Document(ctx context.Context, name string, req api.DocumentGet) (api.DocumentReply, error) {
	out := api.DocumentReply{Versions: []api.VersionRow{}, Chunks: []graph.ChunkRow{}}
	if req.Key == "" {
		return out, badValue("give the key of a document")
	}
	if req.Version < 0 {
		return out, badValue("version is %d: versions count from 1", req.Version)
	}
	if part := req.FromByte != 0 || req.MaxChunks != 0; part && (req.Text || req.Items || req.Cursor != "") || min(req.FromByte, req.MaxChunks) < 0 {
		return out, badValue("from_byte and max_chunks count up from 0, and go without text, items and cursor")
	}
	at := documentAt{Version: req.Version}
	if req.Cursor != "" {
		if err := decodeCursor(verbDocument, req.Cursor, &at); err != nil {
			return out, err
		}
		if min(at.Version, at.Chunks, at.Text, at.Items) < 0 {
			return out, badValue("cursor is not one that %s gave", verbDocument)
		}
	}
	if req.Items && req.Within.Any() {
		return out, badValue("items with within: what was extracted from a document is not shown under limits")
	}
	if !req.Within.ShowsText() {
		return out, api.Errorf(404, "document_not_found", "no document can be read within these limits: labels alone let no running text through")
	}
	err := q.within(ctx, name, at.Seq, req.Offsets, req.Within, func(v *view) error {
		missing := api.Errorf(404, "document_not_found", "no document has the key %q", clip(req.Key))
		if v == nil {
			return missing
		}
		doc, ok, err := v.sn.DocByKey(req.Key)
		if err != nil {
			return err
		}
		if !ok {
			return missing
		}
		return v.document(doc, at, req, &out)
	})
	return out, err
}

func (v *view) document(doc store.Doc, at documentAt, req api.DocumentGet, out *api.DocumentReply) error {
	n, gone := at.Version, false
	if n == 0 {
		n, gone = doc.Version, !doc.Open
	}
	ver, ok, err := v.sn.Version(doc.Meta.ID, n)
	if err != nil {
		return err
	}
	if !ok {
		return api.Errorf(404, "version_not_found", "document %q has no version %d", clip(req.Key), n)
	}
	at.Seq, at.Version = v.sn.Seq(), n
	out.Seq, out.Version, out.Revision, out.State = v.sn.Seq(), n, doc.Revision, "deleted"
	if doc.Open {
		out.State = "open"
	}
	out.SchemaName, out.SchemaVersion, out.SchemaRevision = doc.SchemaName, doc.SchemaVersion, doc.SchemaRevision
	out.Document = documentRow(doc)
	out.Document.ContentHash, out.Document.ChunkerFP = ver.ContentHash, ver.ChunkerFP
	out.Document.SchemaFP, out.Document.ExtractionFP = ver.SchemaFP, ver.ExtractionFP
	if err := v.versions(doc.Meta.ID, out); err != nil {
		return err
	}
	if gone { // what it said is history, which is asked for by its version
		return nil
	}
	d, err := v.at(doc.Meta.ID, n)
	if err != nil {
		return err
	}
	b := newBudget()
	b.take(sizeOf(out.Document) + sizeOf(out.Versions) + 1000)
	for req.FromByte > 0 && at.Chunks < len(d.meta.Chunks) && d.meta.Chunks[at.Chunks].End <= req.FromByte {
		at.Chunks++
	}
	full, err := v.documentChunks(d, &at, req.MaxChunks, b, out)
	if err == nil && !full && req.Text {
		full, err = v.documentText(d, &at, b, out)
	}
	if err == nil && !full && req.Items {
		full, err = v.documentItems(d, &at, b, out)
	}
	if full {
		out.Next = encodeCursor(verbDocument, at)
	}
	return err
}

func (v *view) versions(docID string, out *api.DocumentReply) error {
	versions, err := v.sn.Versions(docID)
	if err != nil {
		return err
	}
	for _, x := range versions[max(0, len(versions)-maxVersions):] {
		out.Versions = append(out.Versions, api.VersionRow{Version: x.Version, ContentHash: x.ContentHash, FromSeq: x.FromSeq,
			FromTime: x.FromTime, ClosedSeq: x.ClosedSeq, ClosedTime: x.ClosedTime, Job: x.Job})
	}
	return nil
}

func (v *view) documentChunks(d *docView, at *documentAt, most int, b *budget, out *api.DocumentReply) (full bool, err error) {
	for at.Chunks < len(d.meta.Chunks) {
		if most > 0 && len(out.Chunks) == most {
			return true, nil
		}
		row, err := v.chunkRow(d, at.Chunks)
		if err != nil {
			return false, err
		}
		if !b.take(chunkCost(row)) {
			return true, nil
		}
		out.Chunks = append(out.Chunks, row)
		at.Chunks++
	}
	return false, nil
}

// chunkRow is a chunk in the unit of the request.
func (v *view) chunkRow(d *docView, index int) (graph.ChunkRow, error) {
	c := d.meta.Chunks[index]
	id, err := d.chunkID(index)
	if err != nil {
		return graph.ChunkRow{}, err
	}
	text, err := v.slice(d, c.Start, c.End)
	if err != nil {
		return graph.ChunkRow{}, err
	}
	start, end, err := v.span(d, c.Start, c.End)
	heading := c.Heading
	if heading == nil {
		heading = []string{}
	}
	return graph.ChunkRow{Content: c.Content, Document: d.key, DocumentID: d.id, End: end, Heading: heading, ID: id, Index: index,
		Kind: "chunk", Prefix: c.Prefix, Start: start, Text: text}, err
}

func chunkCost(r graph.ChunkRow) int {
	n := 320 + textCost(r.Text) + textCost(r.Prefix) + textCost(r.Document)
	for _, h := range r.Heading {
		n += textCost(h) + 1
	}
	return n
}

// documentText gives as much of the text as fits, whole characters.
func (v *view) documentText(d *docView, at *documentAt, b *budget, out *api.DocumentReply) (full bool, err error) {
	text, err := v.textOf(d)
	if err != nil || at.Text >= len(text) {
		return false, err
	}
	if !utf8.RuneStart(text[at.Text]) {
		return false, badValue("cursor is not one that %s gave", verbDocument)
	}
	rest := text[at.Text:]
	if b.take(textCost(rest)) {
		out.Text = rest
		at.Text = len(text)
		return false, nil
	}
	n := fits(rest, int(*b))
	b.take(textCost(rest[:n]))
	out.Text = rest[:n]
	at.Text += n
	return true, nil
}

// fits is how many bytes of s, whole characters, take at most room bytes in JSON.
func fits(s string, room int) int {
	room -= 2
	n := 0
	for n < len(s) {
		_, size := utf8.DecodeRuneInString(s[n:])
		if room -= textCost(s[n:n+size]) - 2; room < 0 {
			break
		}
		n += size
	}
	return n
}

// documentItems gives the items of a version from the place where the last page ended: its facts by chunk and place, then its
// candidates by key.
func (v *view) documentItems(d *docView, at *documentAt, b *budget, out *api.DocumentReply) (full bool, err error) {
	out.Items = &api.DocumentItems{Items: []api.ItemRow{}, Dropped: []graph.Dropped{}}
	st, _, err := v.sn.Assertions(d.id, d.meta.Version)
	if err != nil {
		return false, err
	}
	if at.Items == 0 {
		for _, x := range st.Dropped {
			if b.take(80 + textCost(x.Kind) + textCost(x.Label) + textCost(x.Reason) + textCost(x.Sample)) {
				out.Items.Dropped = append(out.Items.Dropped, x)
			}
		}
	}
	rows, err := v.factItems(d, st.Assertions)
	if err != nil {
		return false, err
	}
	err = v.sn.Candidates(d.id, func(r store.CandidateRecord) error {
		if r.Version != d.meta.Version {
			return nil
		}
		row, err := v.candidateItem(d, r)
		rows = append(rows, row)
		return err
	})
	if err != nil {
		return false, err
	}
	for at.Items < len(rows) {
		row := rows[at.Items]
		if !b.take(sizeOf(row) + 1) {
			return true, nil
		}
		out.Items.Items = append(out.Items.Items, row)
		at.Items++
	}
	return false, nil
}

// placed is an item with the byte offset that orders it.
type placed struct {
	chunk, start int
	row          api.ItemRow
}

func (v *view) factItems(d *docView, a graph.Assertions) ([]api.ItemRow, error) {
	names := namesIn(a)
	name := func(place int) string {
		if place < 0 || place >= len(names) {
			return ""
		}
		return names[place]
	}
	label := func(place int) string {
		if place < 0 || place >= len(a.Entities) {
			return ""
		}
		return a.Entities[place].Label
	}
	var items []placed
	for _, c := range a.Chunks {
		add := func(start, end int, row api.ItemRow) error {
			var err error
			row.Outcome = "fact"
			row.Confidence = graph.Round6(row.Confidence)
			if row.Chunk, err = d.chunkID(c.Index); err != nil {
				return err
			}
			row.Start, row.End, err = v.span(d, start, end)
			items = append(items, placed{c.Index, start, row})
			return err
		}
		for _, m := range c.Mentions {
			if err := add(m.Start, m.End, api.ItemRow{Kind: graph.KindEntity, Label: label(m.Entity), Text: m.Name, Confidence: m.Confidence,
				Extractor: m.Extractor, Rule: m.Rule}); err != nil {
				return nil, err
			}
		}
		for _, p := range c.Properties {
			if err := add(p.Start, p.End, api.ItemRow{Kind: graph.KindProperty, Label: p.Name, Text: schema.ValueText(p.Value),
				SourceText: name(p.Entity), Confidence: p.Confidence, Extractor: p.Extractor}); err != nil {
				return nil, err
			}
		}
		for _, r := range c.Relations {
			quote, err := v.slice(d, r.Start, r.End)
			if err != nil {
				return nil, err
			}
			if err := add(r.Start, r.End, api.ItemRow{Kind: graph.KindRelation, Label: r.Type, Text: quote, SourceText: name(r.Source),
				TargetText: name(r.Target), Confidence: r.Confidence, Extractor: r.Extractor, Rule: r.Rule}); err != nil {
				return nil, err
			}
		}
	}
	slices.SortStableFunc(items, func(x, y placed) int {
		return cmp.Or(x.chunk-y.chunk, x.start-y.start, strings.Compare(x.row.Kind, y.row.Kind), strings.Compare(x.row.Label, y.row.Label))
	})
	rows := make([]api.ItemRow, len(items))
	for i := range items {
		rows[i] = items[i].row
	}
	return rows, nil
}

// namesIn is how the document calls each of its entities: its first mention, else the merge key.
func namesIn(a graph.Assertions) []string {
	names := make([]string, len(a.Entities))
	for _, c := range a.Chunks {
		for _, m := range c.Mentions {
			if m.Entity >= 0 && m.Entity < len(names) && names[m.Entity] == "" {
				names[m.Entity] = m.Name
			}
		}
	}
	for i := range names {
		if names[i] == "" {
			names[i] = a.Entities[i].Key
		}
	}
	return names
}

func (v *view) candidateItem(d *docView, r store.CandidateRecord) (api.ItemRow, error) {
	row := api.ItemRow{Kind: r.Kind, Outcome: "candidate", Label: r.Label, Text: r.Text, SourceText: r.SourceText, TargetText: r.TargetText,
		Reasons: r.Reasons, State: r.State, Confidence: graph.Round6(r.Confidence), Extractor: r.Extractor, Rule: r.Rule}
	var err error
	if row.Chunk, err = d.chunkID(r.Chunk); err != nil {
		return row, err
	}
	row.Start, row.End, err = v.span(d, r.Start, r.End)
	return row, err
}

// documentRow is a document's row of the canonical export.
func documentRow(d store.Doc) graph.DocumentRow {
	return graph.DocumentRow{ChunkerFP: d.ChunkerFP, ContentDate: d.Meta.ContentDate, ContentHash: d.ContentHash,
		ExtractionFP: d.ExtractionFP, ID: d.Meta.ID, Key: d.Meta.Key, Kind: "document", Metadata: roundedMap(d.Meta.Metadata),
		PublishedAt: d.Meta.PublishedAt, SchemaFP: d.SchemaFP, Scope: d.Meta.Scope, Title: d.Meta.Title}
}
