package store

import (
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

// entities rebuilds every entity from its mentions and checks the rows by which it is found.
func (v *verifier) entities() error {
	err := v.each(v.sn.key(spaceEntity), func(k key, r *keyReader, val []byte) error {
		e := r.id()
		var f EntityFold
		if err := decodeEntity(val, &f); err != nil {
			return err
		}
		want := EntityFold{Label: f.Label, Key: f.Key}
		prefix := v.sn.key(spaceMention).id(e)
		err := v.each(prefix, func(_ key, _ *keyReader, b []byte) error {
			var m MentionSupport
			if err := decodeMentions(b, &m); err != nil {
				return err
			}
			want.Documents++
			for _, s := range m.Spans {
				want.addName(s.Name, 1)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if string(encodeEntity(&want)) != string(val) {
			v.problem(k, "it is not what its mentions add up to: %d mentions in %d documents, there are %d in %d", f.Mentions, f.Documents, want.Mentions, want.Documents)
		}
		v.found.Mentions += want.Mentions
		addCount(v.found.Entities, f.Label, 1)
		return v.entityNames(e, &f)
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceName), func(k key, r *keyReader, val []byte) error {
		name, e := r.str(), r.id()
		vr := reader{b: val}
		label, full := vr.str(), vr.bool()
		if err := vr.err("name"); err != nil {
			return err
		}
		var f EntityFold
		ok, err := v.get(v.sn.key(spaceEntity).id(e), func(b []byte) error { return decodeEntity(b, &f) })
		if err != nil {
			return err
		}
		if is, has := indexNames(&f)[name]; !ok || !has || is != full || f.Label != label {
			v.problem(k, "its entity does not have that name")
		}
		return nil
	})
}

func (v *verifier) entityNames(e id, f *EntityFold) error {
	for name := range indexNames(f) {
		if err := v.need(v.sn.key(spaceName).str(name).id(e), "%s %q has the name", f.Label, f.Display()); err != nil {
			return err
		}
		lexical.Terms(name, func(term string) {
			if _, ok := v.nameTerms[v.termHash(term+string(e[:]))]; !ok {
				v.problem(v.sn.key(spacePosting).byte(listEntities).str(strings.Clone(term)).u32(0), "missing: entity %s has the term in its name", e)
			}
		})
	}
	return nil
}

// relations rebuilds every relation from its evidence and checks its ends.
func (v *verifier) relations() error {
	err := v.each(v.sn.key(spaceRelation), func(k key, r *keyReader, val []byte) error {
		rel := r.id()
		var f RelationFold
		if err := decodeRelation(val, &f); err != nil {
			return err
		}
		if fingerprint.RelationID(f.Type, f.Source, f.Target, false) != rel.String() {
			v.problem(k, "its type and ends give another id")
		}
		documents, evidence := 0, 0
		err := v.each(v.sn.key(spaceEvidence).id(rel), func(_ key, _ *keyReader, b []byte) error {
			var s EvidenceSupport
			if err := decodeEvidence(b, &s); err != nil {
				return err
			}
			documents++
			evidence += len(s.Spans)
			return nil
		})
		if err != nil {
			return err
		}
		if documents != f.Documents || evidence != f.Evidence || documents == 0 {
			v.problem(k, "it counts %d quotes in %d documents, there are %d in %d", f.Evidence, f.Documents, evidence, documents)
		}
		addCount(v.found.Relations, f.Type, 1)
		return v.ends(rel, &f)
	})
	if err != nil {
		return err
	}
	for _, space := range []byte{spaceOut, spaceIn} {
		err := v.each(v.sn.key(space), func(k key, r *keyReader, val []byte) error {
			at, typ, other := r.id(), r.str(), r.id()
			if space == spaceIn {
				at, other = other, at
			}
			if len(val) != idLen || fingerprint.RelationID(typ, at.String(), other.String(), false) != id(val).String() {
				v.problem(k, "it does not lead to the relation of its ends")
				return nil
			}
			return v.need(v.sn.key(spaceRelation).id(id(val)), "%s leads to it", describe(k))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) ends(rel id, f *RelationFold) error {
	src, ok1 := parseID(f.Source)
	dst, ok2 := parseID(f.Target)
	if !ok1 || !ok2 {
		return nil // the id said so
	}
	for _, k := range []key{v.sn.key(spaceEntity).id(src), v.sn.key(spaceEntity).id(dst),
		v.sn.key(spaceOut).id(src).str(f.Type).id(dst), v.sn.key(spaceIn).id(dst).str(f.Type).id(src)} {
		if err := v.need(k, "relation %s has that end", rel); err != nil {
			return err
		}
	}
	return nil
}

// properties rebuilds the fold of every property value from its supports.
func (v *verifier) properties() error {
	return v.each(v.sn.key(spacePropFold), func(k key, r *keyReader, val []byte) error {
		owner, name, vk := r.id(), r.str(), r.str()
		f := PropertyFold{}
		if err := decodePropFold(val, &f); err != nil {
			return err
		}
		if got, err := valueKey(f.Value); err != nil || got != vk {
			v.problem(k, "its value is %v", f.Value)
		}
		want := PropertyFold{Value: f.Value}
		err := v.each(v.sn.key(spaceProp).id(owner).str(name).str(vk), func(_ key, _ *keyReader, b []byte) error {
			var s EvidenceSupport
			if err := decodeEvidence(b, &s); err != nil {
				return err
			}
			want.add(saidOf(&s))
			return nil
		})
		if err != nil {
			return err
		}
		if row, err := encodePropFold(&want); err != nil || string(row) != string(val) {
			v.problem(k, "it is not what its documents say: %d documents, there are %d", f.Documents, want.Documents)
		}
		isEntity, err := v.has(v.sn.key(spaceEntity).id(owner))
		if err != nil || isEntity {
			return err
		}
		isRelation, err := v.has(v.sn.key(spaceRelation).id(owner))
		if err == nil && !isRelation {
			v.problem(k, "its owner is missing")
		}
		return err
	})
}

// supports looks for support rows that no open version asks for: only when there are more than those.
func (v *verifier) supports() error {
	for _, space := range []byte{spaceMention, spaceEvidence, spaceProp} {
		n := 0
		if err := v.each(v.sn.key(space), func(key, *keyReader, []byte) error { n++; return nil }); err != nil {
			return err
		}
		if n <= v.expected[space] && v.reply.Total == 0 {
			continue
		}
		if err := v.each(v.sn.key(space), v.support); err != nil {
			return err
		}
	}
	return nil
}

func (v *verifier) support(k key, r *keyReader, _ []byte) error {
	owner := r.id()
	var prop propID
	if k[headLen-1] == spaceProp {
		prop = propID{owner, r.str(), r.str()}
	}
	doc := r.id()
	d, ok, err := v.doc(doc)
	if err != nil {
		return err
	}
	if !ok {
		v.problem(k, "its document %s is missing", doc)
		return nil
	}
	f := noFacts
	_, err = v.get(v.supporting(doc, d), func(b []byte) error {
		st, err := decodeStated(b)
		if err != nil {
			return err
		}
		x, err := factsOfStated(st)
		if err == nil {
			f, err = v.counted(side{d.Version, d.Date(), x, st})
		}
		return err
	})
	if err != nil {
		return err
	}
	stated := false
	switch k[headLen-1] {
	case spaceMention:
		stated = f.ents[owner] != nil
	case spaceEvidence:
		stated = f.rels[owner] != nil
	default:
		stated = f.props[prop] != nil
	}
	if !stated {
		v.problem(k, "document %s does not state it", d.Meta.Key)
	}
	return nil
}

// candidates checks records, their look-up by key, and decisions.
func (v *verifier) candidates() error {
	err := v.each(v.sn.key(spaceCand), func(k key, r *keyReader, val []byte) error {
		doc, ck := r.id(), r.str()
		var rec CandidateRecord
		if err := decodeJSON(val, &rec); err != nil {
			return err
		}
		if rec.State == api.StatePending {
			v.found.Candidates++
		}
		if rec.Key != ck || rec.DocID != doc.String() ||
			rec.ID != fingerprint.CandidateID(rec.DocID, rec.Key, rec.ContentHash, rec.ChunkerFP, rec.SchemaFP, rec.ExtractionFP) {
			v.problem(k, "it is the record of another key, document or reading")
		}
		gk := candGroupKey(v.sn.g.id, ck, doc)
		ok, err := v.get(gk, func(b []byte) error {
			if string(b) != string(encodeGroup(&rec)) {
				v.problem(gk, "it is not what its record says")
				v.problem(k, "it is not what its look-up by key says")
			}
			return nil
		})
		if err != nil {
			return err
		}
		if !ok {
			v.problem(gk, "missing: document %s has a record of the key", doc)
		}
		if err := v.candidateID(&rec, doc); err != nil {
			return err
		}
		return v.record(k, doc, &rec)
	})
	if err != nil {
		return err
	}
	err = v.each(v.sn.key(spaceCandKey), func(k key, r *keyReader, _ []byte) error {
		ck, doc := r.str(), r.id()
		return v.need(candKey(v.sn.g.id, doc, ck), "%s leads to it", describe(k))
	})
	if err != nil {
		return err
	}
	return v.each(v.sn.key(spaceDecision), func(k key, r *keyReader, val []byte) error {
		var d Decision
		if err := decodeJSON(val, &d); err != nil {
			return err
		}
		if ck := r.str(); d.Key != ck || d.State != api.StateApproved && d.State != api.StateRejected {
			v.problem(k, "it decides %q: %q", d.Key, d.State)
		}
		if !strings.HasPrefix(d.Key, "stale|") {
			v.found.Decided[d.State]++
		}
		return nil
	})
}

// candidateID checks that a record's id leads to it.
func (v *verifier) candidateID(rec *CandidateRecord, doc id) error {
	k, err := candIDKey(v.sn.g.id, rec.ID)
	if err != nil {
		return err
	}
	ok, err := v.get(k, func(b []byte) error {
		r := reader{b: b}
		if at, ck := r.id(), r.str(); at != doc || ck != rec.Key {
			v.problem(k, "it leads to %q of document %s, not to its record", ck, at)
		}
		return r.err("candidate id")
	})
	if err == nil && !ok {
		v.problem(k, "missing: it is the id of %q", rec.Key)
	}
	return err
}

// record checks a candidate's evidence and state.
func (v *verifier) record(k key, doc id, rec *CandidateRecord) error {
	dk := v.sn.key(spaceDecision).str(rec.Key)
	var d Decision
	decided, err := v.get(dk, func(b []byte) error { return decodeJSON(b, &d) })
	if err != nil {
		return err
	}
	switch {
	case !decided && rec.State != api.StatePending:
		v.problem(dk, "missing: a record of the key is %s", rec.State)
	case decided && rec.State != d.State && !(d.State == api.StateApproved && rec.State == api.StatePending): // one that failed alone
		v.problem(k, "it is %s, its key is %s", rec.State, d.State)
	}
	if rec.State == api.StatePending {
		row, ok, err := v.doc(doc)
		if err != nil {
			return err
		}
		if !ok || !row.Open || rec.Version > row.Version {
			v.problem(k, "its document is not open")
		}
	}
	ver, text, ok, err := v.docVersion(doc, rec.Version)
	if err != nil {
		return err
	}
	if !ok {
		v.problem(k, "version %d of its document is missing", rec.Version)
		return nil
	}
	spans := append([][3]int{{rec.Chunk, rec.Start, rec.End}}, rec.More...)
	if i := slices.IndexFunc(spans, func(s [3]int) bool {
		return checkSpan(doc.String(), text, ver.Chunks, s[0], s[1], s[2]) != nil
	}); i >= 0 {
		v.problem(k, "its evidence %v does not slice", spans[i])
		return nil
	}
	if got := clipBytes(text[rec.Start:rec.End], maxQuote); got != rec.Quote {
		v.problem(k, "its quote is not at %d…%d", rec.Start, rec.End)
	}
	return nil
}
