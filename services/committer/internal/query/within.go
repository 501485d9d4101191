package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// A request that is limited (api.Within) reads through scoped: a snapshot that has what the limits admit and nothing else. The verbs need not know: what is outside is not
// there for them, names and counts are those of what is inside, and a refusal is that of what does not exist. A method of the snapshot that scoped does not answer
// itself is listed, with the reason, in within_methods_test.go.

// scoped is a snapshot under limits; without (in is nil) it is the snapshot.
type scoped struct {
	*store.Snapshot
	in *limits
}

// limits of one request. They are for one goroutine.
type limits struct {
	ctx    context.Context
	steps  uint
	schema *schema.Schema
	sn     *store.Snapshot
	// now is what documents are admitted by: the newest sequence, whatever is read.
	now    *store.Snapshot
	docs   *filter         // nil: every document
	few    []string        // ids of docs, sorted, where they are so few that each is looked for by itself
	labels map[string]bool // nil: every type
	text   bool            // running text may be shown
	folds  map[string]folded
}

type folded struct {
	fold store.EntityFold
	ok   bool
}

const (
	// maxSeeks is how many documents of a limit are looked for one by one; with more, a fact's documents are gone through.
	maxSeeks = 100
	// maxFolds is how many entities are remembered.
	maxFolds = 4096
	// maxEnds is how many relations of an entity without mentions are looked at for one that is admitted.
	maxEnds = 1000
	// unnamed is the name of an entity that no admitted text names.
	unnamedEntity = "(unnamed)"
)

// limit puts a snapshot under limits; it owns sn from then on. seq is what was asked for: 0 is now.
func (q *Queries) limit(ctx context.Context, sn *store.Snapshot, s *schema.Schema, seq uint64, w *api.Within) (*scoped, error) {
	out := &scoped{Snapshot: sn}
	if !w.Any() {
		return out, nil
	}
	if max(len(w.Scope), len(w.Documents), len(w.Labels)) > api.MaxWithin {
		return out, badValue("within has more than %d values of one kind", api.MaxWithin)
	}
	docs, bad := newFilter(api.Filters{Documents: w.Documents, Scope: w.Scope})
	if bad != nil {
		return out, bad
	}
	in := &limits{ctx: ctx, schema: s, sn: sn, now: sn, docs: docs, text: w.ShowsText(), folds: map[string]folded{}}
	if seq != 0 {
		var err error
		if in.now, err = q.st.Snapshot(sn.Graph(), 0); err != nil {
			return out, err
		}
	}
	out.in = in
	if docs != nil && docs.docs != nil && len(docs.docs) <= maxSeeks {
		for id := range docs.docs {
			in.few = append(in.few, id)
		}
		slices.Sort(in.few)
	}
	if len(w.Labels) > 0 {
		in.labels = map[string]bool{}
		for _, l := range w.Labels {
			if canon, ok := s.Canon(schema.KindEntity, l); ok {
				l = canon
			}
			in.labels[l] = true
		}
	}
	return out, nil
}

// Close ends the snapshot, and the one that documents are admitted by.
func (s *scoped) Close() error {
	if s.in != nil && s.in.now != s.in.sn {
		return errors.Join(s.in.now.Close(), s.Snapshot.Close())
	}
	return s.Snapshot.Close()
}

// limited says whether anything is outside.
func (s *scoped) limited() bool { return s.in != nil }

// showsText says whether running text may be shown.
func (s *scoped) showsText() bool { return s.in == nil || s.in.text }

func (in *limits) tick() error {
	if in.steps++; in.steps%64 == 0 {
		return in.ctx.Err()
	}
	return nil
}

// admits says whether a document is inside, as it is now.
func (in *limits) admits(docID string) (bool, error) {
	f := in.docs
	if f == nil {
		return true, nil
	}
	if ok, known := f.memo[docID]; known {
		return ok, nil
	}
	if f.docs != nil && !f.docs[docID] {
		return false, nil
	}
	d, ok, err := in.now.Doc(docID)
	if err != nil {
		return false, err
	}
	if len(f.memo) >= 1<<18 {
		clear(f.memo)
	}
	ok = ok && f.matches(d)
	f.memo[docID] = ok
	return ok, nil
}

// typed says whether a type is inside.
func (in *limits) typed(label string) bool {
	return in.labels == nil || in.labels[label] || slices.ContainsFunc(in.schema.Labels(label), func(l string) bool { return in.labels[l] })
}

// isTyped says whether an entity that is there has a type that is inside.
func (in *limits) isTyped(id string) (bool, error) {
	if in.labels == nil {
		return true, nil
	}
	e, ok, err := in.sn.Entity(id)
	return ok && in.typed(e.Label), err
}

// through calls fn for those of a fact's documents that are inside, by document id, behind after.
func through[S any](in *limits, after string, docOf func(S) string, scan func(after string, fn func(S) error) error, fn func(S) error) error {
	if in.few == nil {
		return scan(after, func(x S) error {
			ok, err := in.admits(docOf(x))
			if err != nil {
				return err
			}
			if !ok {
				return in.tick()
			}
			return fn(x)
		})
	}
	for _, id := range in.few {
		ok, err := in.admits(id)
		if err != nil {
			return err
		}
		if !ok || id <= after {
			continue
		}
		ended := false
		err = scan(before(id), func(x S) error {
			if docOf(x) != id {
				return store.ErrStop
			}
			err := fn(x)
			ended = errors.Is(err, store.ErrStop)
			return cmp.Or(err, store.ErrStop)
		})
		if err != nil || ended {
			return err
		}
	}
	return nil
}

func mentionDoc(m store.MentionSupport) string   { return m.DocID }
func evidenceDoc(e store.EvidenceSupport) string { return e.DocID }

// mentions are those of an entity inside.
func (in *limits) mentions(id, after string, fn func(store.MentionSupport) error) error {
	return through(in, after, mentionDoc, func(after string, fn func(store.MentionSupport) error) error { return in.sn.Mentions(id, after, fn) }, fn)
}

// evidence of a relation inside.
func (in *limits) evidence(id, after string, fn func(store.EvidenceSupport) error) error {
	return through(in, after, evidenceDoc, func(after string, fn func(store.EvidenceSupport) error) error { return in.sn.Evidence(id, after, fn) }, fn)
}

// stated says whether a document inside states a relation.
func (in *limits) stated(id string) (found bool, err error) {
	if in.docs == nil {
		return true, nil
	}
	err = in.evidence(id, "", func(store.EvidenceSupport) error { found = true; return store.ErrStop })
	return found, err
}

// related says whether a relation is inside: its ends by their types, and by a document that states it.
func (in *limits) related(relation, source, target string) (bool, error) {
	for _, end := range []string{source, target} {
		if ok, err := in.isTyped(end); err != nil || !ok {
			return false, err
		}
	}
	return in.stated(relation)
}

// end finds a relation inside at an entity.
func (in *limits) end(id string) (relation string, err error) {
	looked := 0
	for _, side := range []func(string, string, func(store.Edge) error) error{in.sn.Out, in.sn.In} {
		err := side(id, "", func(e store.Edge) error {
			if looked++; looked > maxEnds {
				return store.ErrStop
			}
			ok, err := in.related(e.Relation, id, e.Other)
			if err != nil || !ok {
				return errors.Join(err, in.tick())
			}
			relation = e.Relation
			return store.ErrStop
		})
		if err != nil || relation != "" {
			return relation, err
		}
	}
	return "", nil
}

// entity is what is inside of an entity: its mentions, and the names that these have. One that nothing inside mentions is there as the end of a relation.
func (in *limits) entity(id string) (store.EntityFold, bool, error) {
	if f, ok := in.folds[id]; ok {
		return f.fold, f.ok, nil
	}
	f, ok, err := in.sn.Entity(id)
	if err != nil {
		return f, false, err
	}
	if ok = ok && in.typed(f.Label); ok && in.docs != nil {
		if f, ok, err = in.refold(f); err != nil {
			return f, false, err
		}
	}
	if !ok {
		f = store.EntityFold{ID: id}
	}
	if len(in.folds) >= maxFolds {
		clear(in.folds)
	}
	in.folds[id] = folded{f, ok}
	return f, ok, nil
}

func (in *limits) refold(f store.EntityFold) (store.EntityFold, bool, error) {
	out := store.EntityFold{ID: f.ID, Label: f.Label}
	at := map[string]int{}
	full := false
	err := in.mentions(f.ID, "", func(m store.MentionSupport) error {
		out.Documents++
		out.Mentions += len(m.Spans)
		for _, s := range m.Spans {
			i, ok := at[s.Name]
			if !ok {
				i = len(out.Names)
				at[s.Name] = i
				n := store.NameCount{Name: s.Name, Full: fingerprint.Fold(s.Name) == f.Key}
				full = full || n.Full
				out.Names = append(out.Names, n)
			}
			out.Names[i].Count++
		}
		return in.tick()
	})
	switch {
	case err != nil:
		return out, false, err
	case full:
		out.Key = f.Key
		return out, true, nil
	case out.Documents > 0:
		out.Key = fingerprint.Fold(out.Display())
		return out, true, nil
	}
	relation, err := in.end(f.ID)
	if err != nil || relation == "" {
		return out, false, err
	}
	out.Key, err = in.keyOf(f.Key, relation)
	return out, true, err
}

// keyOf is the merge key of an entity that nothing inside mentions, where a sentence inside that states a relation of it says it.
func (in *limits) keyOf(key, relation string) (string, error) {
	out := unnamedEntity
	err := in.evidence(relation, "", func(s store.EvidenceSupport) error {
		text, ok, err := in.sn.Text(s.DocID, s.Version)
		if err != nil || !ok {
			return err
		}
		for _, x := range s.Spans {
			if x.Start >= 0 && x.End <= len(text) && x.Start <= x.End && strings.Contains(fingerprint.Fold(text[x.Start:x.End]), key) {
				out = key
				return store.ErrStop
			}
		}
		return in.tick()
	})
	return out, err
}

// named says whether something inside calls an entity by a folded name.
func (in *limits) named(n store.NamedEntity) (store.NamedEntity, bool, error) {
	f, ok, err := in.entity(n.ID)
	if err != nil || !ok || in.docs == nil {
		return n, ok, err
	}
	for _, x := range f.Names {
		if fingerprint.Fold(x.Name) == n.Name {
			n.Full = x.Full
			return n, true, nil
		}
	}
	return n, len(f.Names) == 0 && f.Key == n.Name, nil
}

func (in *limits) onlyNamed(list []store.NamedEntity, limit int) ([]store.NamedEntity, error) {
	out := make([]store.NamedEntity, 0, len(list))
	for _, n := range list {
		n, ok, err := in.named(n)
		if err != nil {
			return nil, err
		}
		if ok {
			out = append(out, n)
		}
		if len(out) == limit {
			break
		}
	}
	return out, nil
}

// owner says whether an entity or relation is inside.
func (in *limits) owner(id string) (bool, error) {
	_, ok, err := in.entity(id)
	if err != nil || ok {
		return ok, err
	}
	r, ok, err := in.sn.Relation(id)
	if err != nil || !ok {
		return false, err
	}
	return in.related(id, r.Source, r.Target)
}

// value is what is said inside of a property value; its Documents are 0 where nothing is.
func (in *limits) value(f store.PropertyFold) (store.PropertyFold, error) {
	if in.docs == nil {
		return f, nil
	}
	out := store.PropertyFold{Owner: f.Owner, Name: f.Name, Value: f.Value}
	err := in.sn.PropertySupports(f.Owner, f.Name, f.Value, func(s store.EvidenceSupport) error {
		if ok, err := in.admits(s.DocID); err != nil || !ok {
			return errors.Join(err, in.tick())
		}
		out.Documents++
		for _, e := range s.Spans {
			switch {
			case e.Confidence > out.Best:
				out.Best, out.BestDocs = e.Confidence, 1
			case e.Confidence == out.Best:
				out.BestDocs++
			}
		}
		switch {
		case s.Date > out.Newest:
			out.Newest, out.NewestDocs = s.Date, 1
		case s.Date == out.Newest:
			out.NewestDocs++
		}
		return in.tick()
	})
	return out, err
}

// relationTypes counts the relations inside by type, of the documents that are looked at; cut says that there are more.
func (v *view) relationTypes() (types map[string]int, cut bool, err error) {
	types = map[string]int{}
	if v.sn.in.docs == nil {
		looked := 0
		err = v.sn.RelationsAll("", func(f store.RelationFold) error {
			if looked++; looked > maxListed {
				cut = true
				return store.ErrStop
			}
			types[f.Type]++
			return v.tick()
		})
		return types, cut, err
	}
	seen := map[string]bool{}
	count := func(id string) error {
		if seen[id] {
			return nil
		}
		seen[id] = true
		f, ok, err := v.sn.Relation(id)
		if err == nil && ok {
			types[f.Type]++
		}
		return err
	}
	looked := 0
	err = v.sn.Docs("", func(d store.Doc) error {
		if looked++; looked > maxListed || len(seen) > maxListed {
			cut = true
			return store.ErrStop
		}
		st, _, err := v.sn.Assertions(d.Meta.ID, d.Version)
		if err != nil {
			return err
		}
		for _, c := range st.Chunks {
			for _, r := range c.Relations {
				if err := count(relationID(st.Assertions, r)); err != nil {
					return err
				}
			}
		}
		return v.tick()
	})
	return types, cut, err
}

const nothingInside = "nothing that was asked for is within the limits of this request"

// nothing says in words that a limited request found nothing; empty where it did, or was not limited.
func (v *view) nothing(found int) string {
	if v == nil || !v.sn.limited() || found > 0 {
		return ""
	}
	return nothingInside
}

// ranks hides what the whole graph says in scores: under limits a hit has its rank's.
func (v *view) ranks(hits []api.Hit) {
	if !v.sn.limited() {
		return
	}
	for i := range hits {
		hits[i].Score = graph.Round6(1 / float64(fusionK+i+1))
	}
}
