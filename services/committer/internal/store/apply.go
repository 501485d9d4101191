package store

import (
	"bytes"
	"context"
	"fmt"
	"math"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// Apply brings one document into the commit. What happens follows from the document's state now, whatever was decided
// before: a change older than the document's order mark is superseded; equal content under the same schema and chunker is
// read in place; other content opens a version. ErrStale says that the change lacks what the present state needs. After
// ErrStale and ErrBadChange nothing of the document was taken in and the commit can go on; after any other error it has to
// be aborted.
func (t *Txn) Apply(ctx context.Context, c DocChange) (DocResult, error) {
	if err := t.lock(); err != nil {
		return DocResult{}, err
	}
	defer t.unlock()
	if err := ctx.Err(); err != nil {
		return DocResult{}, err
	}
	res, err := t.applyDoc(c)
	if err != nil {
		return DocResult{}, fmt.Errorf("apply document %.200q: %w", c.Meta.Key, err)
	}
	return res, t.flushIfFull(ctx)
}

func (t *Txn) applyDoc(c DocChange) (DocResult, error) {
	if c.Meta.Key == "" {
		return DocResult{}, badChange("", "no key")
	}
	c.Meta.ID = fingerprint.DocumentID(c.Meta.Key)
	doc, err := mustID(c.Meta.ID)
	if err != nil {
		return DocResult{}, err
	}
	d, known, err := t.loadDoc(doc)
	if err != nil {
		return DocResult{}, err
	}
	if c.Job != "" {
		t.job = c.Job
	}
	res := DocResult{Version: d.Version}
	if known && c.Order.Before(d.Order) {
		res.Outcome = Superseded
		return res, nil
	}
	a := &application{t: t, c: c, doc: doc, d: d, known: known, res: &res}
	switch c.Decision {
	case graph.Delete:
		err = a.remove()
	case graph.NoOp:
		err = a.noOp()
	case graph.MetadataOnly:
		err = a.metadata()
	case graph.NewVersion, graph.InPlace:
		err = a.content()
	default:
		err = badChange(c.Meta.Key, "decision %q", c.Decision)
	}
	return res, err
}

// application is one document's change under way.
type application struct {
	t     *Txn
	c     DocChange
	doc   id
	d     Doc // as stored, then as it will be
	known bool
	res   *DocResult
}

func (t *Txn) loadDoc(doc id) (d Doc, known bool, err error) {
	v, ok, err := t.load(newKey(t.g.id, spaceDoc).id(doc))
	if err != nil || !ok {
		return d, false, err
	}
	if err := decodeJSON(v, &d); err != nil {
		return d, false, fmt.Errorf("document %s: %w", doc, err)
	}
	return d, true, nil
}

func (a *application) putDoc() error {
	a.d.Order = a.c.Order
	if !a.known {
		a.t.put(newKey(a.t.g.id, spaceKey).str(a.c.Meta.Key), bytes.Clone(a.doc[:]))
	}
	return a.t.putJSON(newKey(a.t.g.id, spaceDoc).id(a.doc), a.d)
}

// noOp moves the order mark.
func (a *application) noOp() error {
	if !a.d.Open {
		return fmt.Errorf("%w: no open version to leave unchanged", ErrStale)
	}
	a.res.Outcome = Unchanged
	if a.d.Order == a.c.Order {
		return nil
	}
	return a.putDoc()
}

func (a *application) metadata() error {
	if !a.d.Open {
		return fmt.Errorf("%w: no open version to describe", ErrStale)
	}
	hash := a.c.Meta.MetaHash()
	if hash == a.d.MetaHash && sameMeta(a.d.Meta, a.c.Meta) {
		return a.noOp()
	}
	a.res.Outcome = MetaChanged
	if err := a.redate(a.c.Meta); err != nil {
		return err
	}
	a.setMeta(hash)
	return a.putDoc()
}

func sameMeta(a, b graph.Meta) bool {
	return a.Format == b.Format && a.SourceUpdatedAt == b.SourceUpdatedAt && a.MetaHash() == b.MetaHash()
}

func (a *application) setMeta(hash string) {
	a.d.Meta, a.d.MetaHash = a.c.Meta, hash
	a.d.Revision++
	a.t.docs = append(a.t.docs, a.c.Meta.Key)
}

// redate moves the document's property values to the date of its new metadata.
func (a *application) redate(m graph.Meta) error {
	was, now := a.d.Date(), dateOf(m)
	if was == now {
		return nil
	}
	st, err := a.t.stated(a.doc, a.d.Version)
	if err != nil {
		return err
	}
	f, err := factsOfStated(st)
	if err != nil {
		return fmt.Errorf("assertions of version %d: %w", a.d.Version, err)
	}
	return a.t.diff(a.doc, side{a.d.Version, was, f, st}, side{a.d.Version, now, f, st}, a.res)
}

func (a *application) remove() error {
	if !a.d.Open {
		// The mark alone stays, so that an older version which arrives later does not come to life.
		a.res.Outcome = Unknown
		if a.known && a.d.Order == a.c.Order {
			return nil
		}
		if !a.known {
			a.d.Meta = graph.Meta{Key: a.c.Meta.Key, ID: a.c.Meta.ID}
		}
		return a.putDoc()
	}
	a.res.Outcome = Deleted
	st, err := a.t.stated(a.doc, a.d.Version)
	if err != nil {
		return err
	}
	was, err := factsOfStated(st)
	if err != nil {
		return fmt.Errorf("assertions of version %d: %w", a.d.Version, err)
	}
	left, now, err := a.goes(st, was)
	if err != nil {
		return err
	}
	if err := a.t.diff(a.doc, side{a.d.Version, a.d.Date(), was, st}, side{0, "", now, left}, a.res); err != nil {
		return err
	}
	if err := a.t.putLeft(a.doc, left); err != nil {
		return err
	}
	open, err := a.t.version(a.doc, a.d.Version)
	if err != nil {
		return err
	}
	if err := a.closeVersion(open); err != nil {
		return err
	}
	a.t.counts.Documents--
	a.d.Open = false
	a.d.Revision++
	a.t.docs = append(a.t.docs, a.c.Meta.Key)
	if err := a.dropCandidates(); err != nil {
		return err
	}
	return a.putDoc()
}

// content opens a version or reads the open one again.
func (a *application) content() error {
	if a.c.Text == "" && a.c.ContentHash == "" {
		return fmt.Errorf("%w: the change has no text", ErrStale)
	}
	inPlace := a.d.Open && a.d.ContentHash == a.c.ContentHash && a.d.ChunkerFP == a.c.ChunkerFP && a.d.SchemaFP == a.c.SchemaFP
	var open Version
	var err error
	if a.d.Open {
		if open, err = a.t.version(a.doc, a.d.Version); err != nil {
			return err
		}
	}
	chunks := a.c.Chunks
	if inPlace {
		chunks = open.Chunks
	}
	if err := checkChunks(a.c.Meta.Key, a.c.Text, chunks); err != nil {
		return err
	}
	p, err := a.c.prepare()
	if err != nil {
		return err
	}
	now := p.now
	if err := errorsJoin(now.check(a.c.Meta.Key, a.c.Text, chunks), a.checkCandidates(chunks)); err != nil {
		return err
	}
	was, wasText, prev := noFacts, "", Stated{}
	if a.d.Open {
		was, wasText, prev, err = a.before(now, chunks, inPlace)
	} else if a.known {
		was, prev, err = a.comesBack()
	}
	if err != nil {
		return err
	}
	if a.d.Open && len(now.states) > 0 {
		if err := p.carried(); err != nil {
			return err
		}
	}
	st, facts := Stated{Assertions: p.stated, Dropped: a.c.Dropped}, p.facts
	if st.Kept, st.Decided, err = a.stale(prev, was, facts); err != nil {
		return err
	}
	if len(st.Kept) > 0 {
		if facts, err = factsOfStated(st); err != nil {
			return err
		}
	}
	from := side{a.d.Version, a.d.Date(), was, prev}
	if inPlace {
		a.res.Outcome = Updated
		err = a.rewrite(open)
	} else {
		err = a.openVersion(open, chunks)
	}
	if err != nil {
		return err
	}
	a.res.Version = a.d.Version
	if err := a.t.diff(a.doc, from, side{a.d.Version, dateOf(a.c.Meta), facts, st}, a.res); err != nil {
		return err
	}
	row, err := p.encode(st)
	if err != nil {
		return err
	}
	a.t.put(newKey(a.t.g.id, spaceAssert).id(a.doc).u32(uint32(a.d.Version)), row)
	if err := a.candidates(now, chunks, inPlace, wasText); err != nil {
		return err
	}
	a.record()
	return a.putDoc()
}

// before reads what the open version states and carries over what this reading could not read.
func (a *application) before(now *statements, chunks []graph.Chunk, inPlace bool) (was *docFacts, text string, st Stated, err error) {
	if st, err = a.t.stated(a.doc, a.d.Version); err != nil {
		return nil, "", st, err
	}
	if was, err = factsOfStated(st); err != nil {
		return nil, "", st, fmt.Errorf("assertions of version %d: %w", a.d.Version, err)
	}
	if len(now.states) == 0 {
		return was, "", st, nil
	}
	old, err := flatten(a.c.Meta.Key, st.Assertions, nil)
	if err != nil {
		return nil, "", st, err
	}
	if inPlace {
		now.keepUnread(old)
		return was, a.c.Text, st, nil
	}
	if text, err = a.t.text(a.doc, a.d.Version); err != nil {
		return nil, "", st, err
	}
	if !old.within(len(text)) {
		return nil, "", st, fmt.Errorf("%w: version %d states a span outside its text", ErrCorrupt, a.d.Version)
	}
	now.reanchor(old, text, a.c.Text, chunks)
	return was, text, st, nil
}

// record writes what the document was read under.
func (a *application) record() {
	d, c := &a.d, a.c
	d.Open = true
	d.ContentHash, d.ChunkerFP, d.SchemaFP, d.ExtractionFP = c.ContentHash, c.ChunkerFP, c.SchemaFP, c.ExtractionFP
	d.SchemaName, d.SchemaVersion, d.SchemaRevision = c.SchemaName, c.SchemaVersion, c.SchemaRevision
	a.setMeta(c.Meta.MetaHash())
}

// rewrite keeps version, text and chunks; only what they were read under changes.
func (a *application) rewrite(v Version) error {
	v.ExtractionFP = a.c.ExtractionFP
	return a.t.putJSON(versionKey(a.t.g.id, a.doc, v.Version), v)
}

func (a *application) openVersion(was Version, chunks []graph.Chunk) error {
	t := a.t
	a.res.Outcome = Added
	if a.d.Open {
		a.res.Outcome = Updated
		if err := a.closeVersion(was); err != nil {
			return err
		}
	} else {
		t.counts.Documents++
	}
	if uint64(t.counts.ChunkNo)+uint64(len(chunks)) > math.MaxUint32 {
		return fmt.Errorf("graph %s has no chunk numbers left", t.g.name)
	}
	a.d.Version++
	v := Version{Version: a.d.Version, ContentHash: a.c.ContentHash, ChunkerFP: a.c.ChunkerFP, SchemaFP: a.c.SchemaFP,
		ExtractionFP: a.c.ExtractionFP, Chunks: chunks, FirstNo: t.counts.ChunkNo, FromSeq: t.seq, FromTime: t.at, Job: a.c.Job}
	no := numbered{doc: a.doc, version: v.Version, terms: make([]int, len(chunks))}
	for i, c := range chunks {
		cid, err := mustID(fingerprint.ChunkID(a.c.Meta.ID, a.c.ContentHash, a.c.ChunkerFP, i))
		if err != nil {
			return err
		}
		t.put(newKey(t.g.id, spaceChunk).id(cid), encodeChunkRef(a.doc, v.Version, i))
		t.feed(TouchedChunk, cid)
		if c.Prefix != "" {
			no.terms[i] = t.post.Add(v.FirstNo+uint32(i), c.Prefix)
		}
		no.terms[i] += t.post.Add(v.FirstNo+uint32(i), a.c.Text[c.Start:c.End])
		v.Terms += no.terms[i]
	}
	if len(chunks) > 0 {
		t.put(newKey(t.g.id, spaceNo).u32(v.FirstNo), encodeNumbered(no))
	}
	t.counts.ChunkNo += uint32(len(chunks))
	t.counts.Chunks += len(chunks)
	t.counts.Terms += v.Terms
	// One leading byte tells an empty text from a removed row.
	t.put(newKey(t.g.id, spaceText).id(a.doc).u32(uint32(v.Version)), append([]byte{1}, a.c.Text...))
	return t.putJSON(versionKey(t.g.id, a.doc, v.Version), v)
}

func (a *application) closeVersion(v Version) error {
	v.ClosedSeq, v.ClosedTime = a.t.seq, a.t.at
	if err := a.feedChunks(v); err != nil {
		return err
	}
	a.t.counts.Chunks -= len(v.Chunks)
	a.t.counts.Terms -= v.Terms
	return a.t.putJSON(versionKey(a.t.g.id, a.doc, v.Version), v)
}

// feedChunks tells the feed of the chunks of a version that is closed.
func (a *application) feedChunks(v Version) error {
	for i := range v.Chunks {
		cid, err := mustID(fingerprint.ChunkID(a.doc.String(), v.ContentHash, v.ChunkerFP, i))
		if err != nil {
			return err
		}
		a.t.feed(TouchedChunk, cid)
	}
	return nil
}

func versionKey(g uint32, doc id, n int) key { return newKey(g, spaceVersion).id(doc).u32(uint32(n)) }

// The following read rows that must be there.

func (t *Txn) version(doc id, n int) (v Version, err error) {
	row, ok, err := t.load(versionKey(t.g.id, doc, n))
	if err == nil && !ok {
		err = fmt.Errorf("%w: missing", ErrCorrupt)
	}
	if err == nil {
		err = decodeJSON(row, &v)
	}
	if err != nil {
		return v, fmt.Errorf("version %d: %w", n, err)
	}
	return v, nil
}

func (t *Txn) stated(doc id, n int) (s Stated, err error) {
	row, ok, err := t.load(newKey(t.g.id, spaceAssert).id(doc).u32(uint32(n)))
	if err == nil && !ok {
		err = fmt.Errorf("%w: missing", ErrCorrupt)
	}
	if err == nil {
		s, err = decodeStated(row)
	}
	if err != nil {
		return s, fmt.Errorf("assertions of version %d: %w", n, err)
	}
	return s, nil
}

func (t *Txn) text(doc id, n int) (string, error) {
	row, ok, err := t.load(newKey(t.g.id, spaceText).id(doc).u32(uint32(n)))
	if err == nil && !ok {
		err = fmt.Errorf("%w: missing", ErrCorrupt)
	}
	if err != nil {
		return "", fmt.Errorf("text of version %d: %w", n, err)
	}
	return string(row[1:]), nil
}

// changePart bounds the body of one change event, in bytes of ids and keys.
const changePart = 150 << 10

// emitChanges tells mirrors what the commit changed.
func (t *Txn) emitChanges(ctx context.Context) error {
	if len(t.docs) == 0 && len(t.touched) == 0 {
		return nil
	}
	var parts []*events.Change
	var part *events.Change
	size := 0
	room := func(n int) {
		if part == nil || size+n > changePart {
			part = &events.Change{Graph: t.g.name, Seq: t.seq, Part: len(parts) + 1, Job: t.job}
			parts, size = append(parts, part), 0
		}
		size += n
	}
	sortStrings(t.docs)
	for i, k := range t.docs {
		if i > 0 && t.docs[i-1] == k {
			continue
		}
		room(len(k) + 8)
		part.Documents = append(part.Documents, k)
	}
	for _, v := range inOrder(t.touched) {
		room(40)
		if t.touched[v] {
			part.Upserted = append(part.Upserted, v.String())
		} else {
			part.Removed = append(part.Removed, v.String())
		}
	}
	for i, p := range parts {
		p.Parts = len(parts)
		if err := t.emit(p); err != nil {
			return err
		}
		parts[i] = nil
		if err := t.flushIfFull(ctx); err != nil {
			return err
		}
	}
	return nil
}
