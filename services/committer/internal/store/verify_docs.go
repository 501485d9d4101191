package store

import (
	"slices"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// versionHead is what other rows are compared with of a version.
type versionHead struct {
	contentHash, chunkerFP string
	firstNo                uint32
	chunks                 int
}

// versionAt names a version.
type versionAt struct {
	doc id
	n   int
}

// A version with longVersion chunks and more is remembered, at most maxLong of them: as many rows as it has chunks ask for it, in the
// order of their random ids, and decoding it takes the time of all its chunks.
const (
	longVersion = 32
	maxLong     = 10_000
)

// head reads what other rows of a version are compared with.
func (v *verifier) head(doc id, n int) (h versionHead, ok bool, err error) {
	if h, ok = v.long[versionAt{doc, n}]; ok {
		return h, true, nil
	}
	var ver Version
	ok, err = v.get(versionKey(v.sn.g.id, doc, n), func(b []byte) error { return decodeJSON(b, &ver) })
	h = versionHead{ver.ContentHash, ver.ChunkerFP, ver.FirstNo, len(ver.Chunks)}
	if ok && err == nil && h.chunks >= longVersion && len(v.long) < maxLong {
		v.long[versionAt{doc, n}] = h
	}
	return h, ok, err
}

// lastVersion is the version that was read last, with its text: rows of one document follow each other.
type lastVersion struct {
	at   versionAt
	ver  Version
	text string
	ok   bool
}

// docVersion reads the version row that another row belongs to, and its text.
func (v *verifier) docVersion(doc id, n int) (ver Version, text string, ok bool, err error) {
	l := &v.last
	if l.ok && l.at == (versionAt{doc, n}) {
		return l.ver, l.text, true, nil
	}
	*l = lastVersion{at: versionAt{doc, n}}
	if l.ok, err = v.get(versionKey(v.sn.g.id, doc, n), func(b []byte) error { return decodeJSON(b, &l.ver) }); err == nil && l.ok {
		_, err = v.get(v.sn.key(spaceText).id(doc).u32(uint32(n)), func(b []byte) error { l.text = string(b[1:]); return nil })
	}
	if err != nil {
		l.ok = false
	}
	return l.ver, l.text, l.ok, err
}

func (v *verifier) doc(doc id) (d Doc, ok bool, err error) {
	ok, err = v.get(v.sn.key(spaceDoc).id(doc), func(b []byte) error { return decodeJSON(b, &d) })
	return d, ok, err
}

// postingRows adds up the postings, and notes the terms of entity names. It reads all sequences: no row replaces another.
func (v *verifier) postingRows() error {
	s := v.sn.s
	if err := s.enter(); err != nil {
		return err
	}
	defer s.exit()
	return s.scanRaw(v.sn.key(spacePosting), nil, func(k, val []byte) error {
		if err := v.ctx.Err(); err != nil {
			return err
		}
		base, seq, fact := splitRow(k)
		r := readKey(base)
		list, term := r.take(1)[0], r.str()
		r.u32()
		val, err := unseal(base, val)
		if !fact || seq > v.sn.seq || !r.done() || err != nil {
			return nil // reported by the first pass
		}
		switch list {
		case ListChunks:
			h := v.termHash(term)
			if lexical.Each(val, func(no, tf uint32) bool { v.sums[h] += v.postingHash(no, tf); return true }) != nil {
				v.problem(k, "not a posting list")
			}
		case listEntities:
			return v.namePostingRow(k, term, val)
		default:
			v.problem(k, "no such list")
		}
		return nil
	})
}

func (v *verifier) namePostingRow(k []byte, term string, val []byte) error {
	if len(val)%idLen != 0 {
		v.problem(k, "not a list of entities")
		return nil
	}
	for e := range slices.Chunk(val, idLen) {
		v.nameTerms[v.termHash(term+string(e))] = struct{}{}
		known, err := v.anySeq(v.sn.key(spaceEntity).raw(e))
		if err != nil {
			return err
		}
		if !known {
			v.problem(k, "entity %s never was", id(e))
		}
	}
	return nil
}

// anySeq says whether a row was ever there.
func (v *verifier) anySeq(k key) (bool, error) {
	it, err := v.sn.borrow()
	if err != nil {
		return false, err
	}
	defer v.sn.giveBack(it)
	return it.SeekPrefixGE(k.end()), it.Error()
}

// versions checks every version of every document with its text, chunks and assertions, and asks for the support rows of the
// open ones.
func (v *verifier) versions() error {
	return v.each(v.sn.key(spaceVersion), func(k key, r *keyReader, val []byte) error {
		doc, n := r.id(), int(r.u32())
		var ver Version
		if err := decodeJSON(val, &ver); err != nil {
			return err
		}
		if ver.Version != n {
			v.problem(k, "it says that it is version %d", ver.Version)
		}
		d, ok, err := v.doc(doc)
		if err != nil {
			return err
		}
		if !ok {
			v.problem(v.sn.key(spaceDoc).id(doc), "missing: it has a version %d", n)
			return nil
		}
		open := d.Open && d.Version == n
		if n > d.Version || open != (ver.ClosedSeq == 0) {
			// Either may be the wrong one.
			v.problem(k, "its document is at version %d (open: %t), it is closed by %d", d.Version, d.Open, ver.ClosedSeq)
			v.problem(v.sn.key(spaceDoc).id(doc), "it is at version %d (open: %t), version %d is closed by %d", d.Version, d.Open, n, ver.ClosedSeq)
		}
		return v.version(k, doc, d, ver, open)
	})
}

func (v *verifier) version(k key, doc id, d Doc, ver Version, open bool) error {
	var text string
	tk := v.sn.key(spaceText).id(doc).u32(uint32(ver.Version))
	ok, err := v.get(tk, func(b []byte) error { text = string(b[1:]); return nil })
	if err != nil {
		return err
	}
	if !ok {
		v.problem(tk, "missing: the text of a version")
		return nil
	}
	if fingerprint.ContentHash(text) != ver.ContentHash {
		v.problem(k, "its content hash is not that of its text")
	}
	if err := checkChunks(d.Meta.Key, text, ver.Chunks); err != nil {
		return err
	}
	if err := v.chunks(k, doc, d, ver, text); err != nil {
		return err
	}
	if open {
		v.found.Chunks += len(ver.Chunks)
		v.found.Terms += ver.Terms
		if ver.ContentHash != d.ContentHash || ver.ChunkerFP != d.ChunkerFP || ver.SchemaFP != d.SchemaFP || ver.ExtractionFP != d.ExtractionFP {
			v.problem(k, "its fingerprints are not those of its document")
		}
	}
	ak := v.sn.key(spaceAssert).id(doc).u32(uint32(ver.Version))
	var st Stated
	ok, err = v.get(ak, func(b []byte) (err error) { st, err = decodeStated(b); return err })
	if err != nil {
		return err
	}
	if !ok {
		v.problem(ak, "missing: the assertions of a version")
		return nil
	}
	return v.stated(ak, doc, d, ver, text, st, open)
}

// chunks checks the rows by which chunks are found, and takes the version's terms off the sums.
func (v *verifier) chunks(k key, doc id, d Doc, ver Version, text string) error {
	var x lexical.Index
	want := numbered{doc: doc, version: ver.Version}
	total := 0
	for i, c := range ver.Chunks {
		n := 0
		if c.Prefix != "" {
			n = x.Add(ver.FirstNo+uint32(i), c.Prefix)
		}
		n += x.Add(ver.FirstNo+uint32(i), text[c.Start:c.End])
		want.terms = append(want.terms, n)
		total += n
		cid, err := mustID(fingerprint.ChunkID(d.Meta.ID, ver.ContentHash, ver.ChunkerFP, i))
		if err != nil {
			return err
		}
		if err := v.need(v.sn.key(spaceChunk).id(cid), "chunk %d of %s version %d", i, d.Meta.Key, ver.Version); err != nil {
			return err
		}
	}
	if total != ver.Terms {
		v.problem(k, "it counts %d terms, its chunks have %d", ver.Terms, total)
	}
	if len(ver.Chunks) > 0 {
		nk := v.sn.key(spaceNo).u32(ver.FirstNo)
		ok, err := v.get(nk, func(b []byte) error {
			if string(b) != string(encodeNumbered(want)) {
				v.problem(nk, "it does not count the terms of version %d of %s", ver.Version, d.Meta.Key)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !ok {
			v.problem(nk, "missing: the chunks of version %d of %s", ver.Version, d.Meta.Key)
		}
		v.found.ChunkNo = max(v.found.ChunkNo, ver.FirstNo+uint32(len(ver.Chunks)))
	}
	return x.Each(func(term string, list []byte) error {
		h := v.termHash(term)
		return lexical.Each(list, func(no, tf uint32) bool { v.sums[h] -= v.postingHash(no, tf); return true })
	})
}

// stated checks that assertions slice and that their facts have the support rows they should.
func (v *verifier) stated(k key, doc id, d Doc, ver Version, text string, st Stated, open bool) error {
	flat, err := flatten(d.Meta.Key, st.Assertions, nil)
	if err == nil {
		err = flat.check(d.Meta.Key, text, ver.Chunks)
	}
	var f *docFacts
	if err == nil {
		f, err = factsOfStated(st)
	}
	if err != nil {
		v.problem(k, "%v", err)
		return nil
	}
	if !open {
		return nil
	}
	if err := v.kept(k, doc, d, st); err != nil {
		return err
	}
	return v.supported(doc, d, side{ver.Version, d.Date(), f, st})
}

// supported asks for the support rows of what a document states and keeps.
func (v *verifier) supported(doc id, d Doc, here side) error {
	f, err := v.counted(here)
	if err != nil {
		return err
	}
	for e, x := range f.ents {
		if err := v.expect(v.sn.key(spaceMention).id(e).id(doc), encodeMentions(&MentionSupport{Version: here.at(x.version), Spans: x.spans})); err != nil {
			return err
		}
		if err := v.need(v.sn.key(spaceEntity).id(e), "%s states it", d.Meta.Key); err != nil {
			return err
		}
	}
	for rel, x := range f.rels {
		row, err := encodeEvidence(&EvidenceSupport{Version: here.at(x.version), Spans: x.spans})
		if err != nil {
			return err
		}
		if err := v.expect(v.sn.key(spaceEvidence).id(rel).id(doc), row); err != nil {
			return err
		}
		if err := v.need(v.sn.key(spaceRelation).id(rel), "%s states it", d.Meta.Key); err != nil {
			return err
		}
	}
	for p, x := range f.props {
		row, err := encodeEvidence(&EvidenceSupport{Version: here.at(x.version), Date: here.dateOf(x), Spans: x.spans})
		if err != nil {
			return err
		}
		if err := v.expect(v.sn.key(spaceProp).id(p.owner).str(p.name).str(p.value).id(doc), row); err != nil {
			return err
		}
		if err := v.need(v.sn.key(spacePropFold).id(p.owner).str(p.name).str(p.value), "%s states it", d.Meta.Key); err != nil {
			return err
		}
	}
	return nil
}

// lostPostings names the terms whose postings are not those of the texts.
func (v *verifier) lostPostings() error {
	for h, sum := range v.sums {
		if sum == 0 {
			delete(v.sums, h)
		}
	}
	if len(v.sums) == 0 {
		return nil
	}
	named := map[string]bool{}
	name := func(term string) {
		if _, bad := v.sums[v.termHash(term)]; bad && !named[term] {
			named[term] = true
			v.problem(v.sn.key(spacePosting).byte(ListChunks).str(term).u32(0), "the postings of this term are not those of the texts")
		}
	}
	err := v.each(v.sn.key(spaceText), func(_ key, _ *keyReader, val []byte) error {
		lexical.Terms(string(val[1:]), name)
		return nil
	})
	if err != nil {
		return err
	}
	// Terms that no text has.
	return v.each(v.sn.key(spacePosting).byte(ListChunks), func(_ key, r *keyReader, _ []byte) error {
		r.take(1)
		name(r.str())
		return nil
	})
}

func (v *verifier) documents() error {
	return v.each(v.sn.key(spaceDoc), func(k key, r *keyReader, val []byte) error {
		doc := r.id()
		var d Doc
		if err := decodeJSON(val, &d); err != nil {
			return err
		}
		if d.Meta.ID != doc.String() || fingerprint.DocumentID(d.Meta.Key) != d.Meta.ID {
			v.problem(k, "its key %q gives another id", d.Meta.Key)
		}
		if err := v.need(v.sn.key(spaceKey).str(d.Meta.Key), "document %s", d.Meta.ID); err != nil {
			return err
		}
		if d.Version > 0 {
			if err := v.need(versionKey(v.sn.g.id, doc, d.Version), "the last version of %s", d.Meta.Key); err != nil {
				return err
			}
		}
		if !d.Open {
			return nil
		}
		v.found.Documents++
		if d.MetaHash != d.Meta.MetaHash() {
			v.problem(k, "its metadata hash is not that of its metadata")
		}
		return nil
	})
}

// index checks the rows that lead to documents and chunks.
func (v *verifier) index() error {
	err := v.each(v.sn.key(spaceKey), func(k key, r *keyReader, val []byte) error {
		docKey := r.str()
		if len(val) != idLen || id(val).String() != fingerprint.DocumentID(docKey) {
			v.problem(k, "it does not lead to the document of its key")
			return nil
		}
		return v.need(v.sn.key(spaceDoc).id(id(val)), "key %q leads to it", docKey)
	})
	if err != nil {
		return err
	}
	err = v.each(v.sn.key(spaceChunk), func(k key, r *keyReader, val []byte) error {
		cid := r.id()
		vr := reader{b: val}
		doc, n, i := vr.id(), vr.uint(), vr.uint()
		if err := vr.err("chunk"); err != nil {
			return err
		}
		ver, ok, err := v.head(doc, n)
		if err != nil {
			return err
		}
		if !ok || i >= ver.chunks || fingerprint.ChunkID(doc.String(), ver.contentHash, ver.chunkerFP, i) != cid.String() {
			v.problem(k, "it leads to chunk %d of version %d of document %s, which is not it", i, n, doc)
		}
		return nil
	})
	if err != nil {
		return err
	}
	err = v.each(v.sn.key(spaceNo), func(k key, r *keyReader, val []byte) error {
		first := r.u32()
		n, err := decodeNumbered(val)
		if err != nil {
			return err
		}
		ver, ok, err := v.head(n.doc, n.version)
		if err == nil && (!ok || ver.firstNo != first || ver.chunks != len(n.terms)) {
			v.problem(k, "it leads to version %d of document %s, which has other numbers", n.version, n.doc)
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, space := range []byte{spaceText, spaceAssert} {
		err := v.each(v.sn.key(space), func(k key, r *keyReader, val []byte) error {
			doc, n := r.id(), int(r.u32())
			if space == spaceAssert && n == 0 {
				return v.left(k, doc, val)
			}
			ok, err := v.has(versionKey(v.sn.g.id, doc, n))
			if err == nil && !ok {
				v.problem(k, "its version is missing")
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// counts compares the row of counts.
func (v *verifier) counts() error {
	k := v.sn.key(spaceCounts)
	var c Counts
	ok, err := v.get(k, func(b []byte) error { return decodeJSON(b, &c) })
	if err != nil {
		return err
	}
	if !ok {
		if v.sn.seq > 0 {
			v.problem(k, "missing")
		}
		return nil
	}
	f := v.found
	say := func(what string, got, want int) {
		if got != want {
			v.problem(k, "it counts %d %s, there are %d", got, what, want)
		}
	}
	say("documents", c.Documents, f.Documents)
	say("chunks", c.Chunks, f.Chunks)
	say("terms", c.Terms, f.Terms)
	say("mentions", c.Mentions, f.Mentions)
	say("pending candidates", c.Candidates, f.Candidates)
	say("stale facts that wait", c.Stale, f.Stale)
	say("rulings", c.Rulings, f.Rulings)
	say("names told apart", c.Apart, f.Apart)
	if c.ChunkNo < f.ChunkNo {
		v.problem(k, "the next chunk number %d is taken", c.ChunkNo)
	}
	for _, m := range []struct {
		what      string
		got, want map[string]int
	}{{"entities of type ", c.Entities, f.Entities}, {"relations of type ", c.Relations, f.Relations}, {"matches ", c.Matches, f.Matches},
		{"conflicts ", c.Conflicts, f.Conflicts}, {"candidate keys ", c.Decided, f.Decided}} {
		for t := range m.got {
			say(m.what+t, m.got[t], m.want[t])
		}
		for t := range m.want {
			if _, ok := m.got[t]; !ok {
				say(m.what+t, 0, m.want[t])
			}
		}
	}
	return nil
}
