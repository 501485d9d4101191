package query

import (
	"errors"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// What scoped answers itself.

// hides says whether a document is outside.
func (s *scoped) hides(docID string) (bool, error) {
	if s.in == nil {
		return false, nil
	}
	ok, err := s.in.admits(docID)
	return !ok, err
}

func (s *scoped) Doc(docID string) (d store.Doc, ok bool, err error) {
	if hidden, err := s.hides(docID); err != nil || hidden {
		return d, false, err
	}
	return s.Snapshot.Doc(docID)
}

func (s *scoped) DocByKey(key string) (store.Doc, bool, error) {
	d, ok, err := s.Snapshot.DocByKey(key)
	if err != nil || !ok {
		return d, ok, err
	}
	if hidden, err := s.hides(d.Meta.ID); err != nil || hidden {
		return store.Doc{}, false, err
	}
	return d, true, nil
}

// Docs inside, by key. Few documents are looked for one by one; else all are gone through, and after maxListed that are outside in a row the request is
// refused: a cursor to go on with would name one of them.
func (s *scoped) Docs(after string, fn func(store.Doc) error) error {
	if s.in == nil {
		return s.Snapshot.Docs(after, fn)
	}
	outside := 0
	return s.Snapshot.Docs(after, func(d store.Doc) error {
		hidden, err := s.hides(d.Meta.ID)
		if err != nil {
			return err
		}
		if !hidden {
			outside = 0
			return fn(d)
		}
		if outside++; outside > maxListed {
			return tooFar("documents")
		}
		return s.in.tick()
	})
}

func tooFar(what string) error {
	return api.Errorf(413, "too_large", "%d %s in a row are outside the limits: ask for one by name instead", maxListed, what)
}

func (s *scoped) Version(docID string, n int) (v store.Version, ok bool, err error) {
	if hidden, err := s.hides(docID); err != nil || hidden {
		return v, false, err
	}
	return s.Snapshot.Version(docID, n)
}

func (s *scoped) Versions(docID string) ([]store.Version, error) {
	if hidden, err := s.hides(docID); err != nil || hidden {
		return nil, err
	}
	return s.Snapshot.Versions(docID)
}

func (s *scoped) Text(docID string, version int) (string, bool, error) {
	if hidden, err := s.hides(docID); err != nil || hidden {
		return "", false, err
	}
	return s.Snapshot.Text(docID, version)
}

// Assertions of a document inside; they are not limited by type, so that their facts are to be looked up.
func (s *scoped) Assertions(docID string, version int) (st store.Stated, ok bool, err error) {
	if hidden, err := s.hides(docID); err != nil || hidden {
		return st, false, err
	}
	return s.Snapshot.Assertions(docID, version)
}

func (s *scoped) ChunkRef(chunkID string) (store.ChunkRef, bool, error) {
	return s.chunk(s.Snapshot.ChunkRef(chunkID))
}

func (s *scoped) ChunkAt(no uint32) (store.ChunkRef, bool, error) {
	return s.chunk(s.Snapshot.ChunkAt(no))
}

func (s *scoped) chunk(ref store.ChunkRef, ok bool, err error) (store.ChunkRef, bool, error) {
	if err != nil || !ok {
		return ref, ok, err
	}
	if hidden, err := s.hides(ref.DocID); err != nil || hidden {
		return store.ChunkRef{}, false, err
	}
	return ref, true, nil
}

func (s *scoped) OpenChunks(after string, fn func(string) error) error {
	return s.Snapshot.OpenChunks(after, func(id string) error {
		if s.in != nil {
			if _, ok, err := s.ChunkRef(id); err != nil || !ok {
				return err
			}
		}
		return fn(id)
	})
}

func (s *scoped) Entity(id string) (store.EntityFold, bool, error) {
	if s.in == nil {
		return s.Snapshot.Entity(id)
	}
	return s.in.entity(id)
}

func (s *scoped) EntitiesNamed(name string) ([]store.NamedEntity, error) {
	list, err := s.Snapshot.EntitiesNamed(name)
	if err != nil || s.in == nil {
		return list, err
	}
	return s.in.onlyNamed(list, 0)
}

func (s *scoped) EntityNamePrefix(name string, limit int) ([]store.NamedEntity, error) {
	if s.in == nil {
		return s.Snapshot.EntityNamePrefix(name, limit)
	}
	list, err := s.Snapshot.EntityNamePrefix(name, 10*limit)
	if err != nil {
		return list, err
	}
	return s.in.onlyNamed(list, limit)
}

func (s *scoped) EntityNames(after store.NamedEntity, fn func(store.NamedEntity) error) error {
	if s.in == nil {
		return s.Snapshot.EntityNames(after, fn)
	}
	outside := 0
	return s.Snapshot.EntityNames(after, func(n store.NamedEntity) error {
		n, ok, err := s.in.named(n)
		if err != nil {
			return err
		}
		if ok {
			outside = 0
			return fn(n)
		}
		if outside++; outside > maxListed {
			return tooFar("names")
		}
		return s.in.tick()
	})
}

func (s *scoped) EntitiesAll(after string, fn func(store.EntityFold) error) error {
	if s.in == nil {
		return s.Snapshot.EntitiesAll(after, fn)
	}
	return s.Snapshot.EntitiesAll(after, func(f store.EntityFold) error {
		f, ok, err := s.in.entity(f.ID)
		if err != nil || !ok {
			return errors.Join(err, s.in.tick())
		}
		return fn(f)
	})
}

func (s *scoped) Mentions(id, after string, fn func(store.MentionSupport) error) error {
	if s.in == nil {
		return s.Snapshot.Mentions(id, after, fn)
	}
	if ok, err := s.in.isTyped(id); err != nil || !ok {
		return err
	}
	return s.in.mentions(id, after, fn)
}

func (s *scoped) Relation(id string) (f store.RelationFold, ok bool, err error) {
	f, ok, err = s.Snapshot.Relation(id)
	if err != nil || !ok || s.in == nil {
		return f, ok, err
	}
	if ok, err = s.in.related(id, f.Source, f.Target); err != nil || !ok {
		return store.RelationFold{ID: id}, false, err
	}
	if s.in.docs == nil {
		return f, true, nil
	}
	f.Documents, f.Evidence = 0, 0
	err = s.in.evidence(id, "", func(e store.EvidenceSupport) error {
		f.Documents++
		f.Evidence += len(e.Spans)
		return s.in.tick()
	})
	return f, f.Documents > 0, err
}

func (s *scoped) RelationsAll(after string, fn func(store.RelationFold) error) error {
	if s.in == nil {
		return s.Snapshot.RelationsAll(after, fn)
	}
	return s.Snapshot.RelationsAll(after, func(f store.RelationFold) error {
		f, ok, err := s.Relation(f.ID)
		if err != nil || !ok {
			return errors.Join(err, s.in.tick())
		}
		return fn(f)
	})
}

func (s *scoped) Evidence(id, after string, fn func(store.EvidenceSupport) error) error {
	if s.in == nil {
		return s.Snapshot.Evidence(id, after, fn)
	}
	if s.in.labels != nil {
		if _, ok, err := s.Relation(id); err != nil || !ok {
			return err
		}
	}
	return s.in.evidence(id, after, fn)
}

func (s *scoped) Out(source, relType string, fn func(store.Edge) error) error {
	return s.edges(source, relType, s.Snapshot.Out, fn)
}

func (s *scoped) In(target, relType string, fn func(store.Edge) error) error {
	return s.edges(target, relType, s.Snapshot.In, fn)
}

func (s *scoped) edges(at, relType string, side func(id, relType string, fn func(store.Edge) error) error, fn func(store.Edge) error) error {
	if s.in == nil {
		return side(at, relType, fn)
	}
	return side(at, relType, func(e store.Edge) error {
		ok, err := s.in.related(e.Relation, at, e.Other)
		if err != nil || !ok {
			return errors.Join(err, s.in.tick())
		}
		return fn(e)
	})
}

func (s *scoped) PropertyFolds(owner string) ([]store.PropertyFold, error) {
	list, err := s.Snapshot.PropertyFolds(owner)
	if err != nil || s.in == nil || len(list) == 0 {
		return list, err
	}
	if ok, err := s.in.owner(owner); err != nil || !ok {
		return nil, err
	}
	out := list[:0]
	for _, f := range list {
		if f, err = s.in.value(f); err != nil {
			return nil, err
		}
		if f.Documents > 0 {
			out = append(out, f)
		}
	}
	return out, nil
}

func (s *scoped) PropertyValues(owner, name string, fn func(store.PropertyFold) error) error {
	if s.in == nil {
		return s.Snapshot.PropertyValues(owner, name, fn)
	}
	if ok, err := s.in.owner(owner); err != nil || !ok {
		return err
	}
	return s.Snapshot.PropertyValues(owner, name, func(f store.PropertyFold) error {
		f, err := s.in.value(f)
		if err != nil || f.Documents == 0 {
			return errors.Join(err, s.in.tick())
		}
		return fn(f)
	})
}

func (s *scoped) PropertySupports(owner, name string, value any, fn func(store.EvidenceSupport) error) error {
	if s.in == nil {
		return s.Snapshot.PropertySupports(owner, name, value, fn)
	}
	if ok, err := s.in.owner(owner); err != nil || !ok {
		return err
	}
	return s.Snapshot.PropertySupports(owner, name, value, func(e store.EvidenceSupport) error {
		hidden, err := s.hides(e.DocID)
		if err != nil || hidden {
			return errors.Join(err, s.in.tick())
		}
		return fn(e)
	})
}

// HasValue says whether an owner has a value of a property inside.
func (s *scoped) HasValue(owner, name string) (has bool, err error) {
	if s.in == nil {
		return s.Snapshot.HasValue(owner, name)
	}
	err = s.PropertyValues(owner, name, func(store.PropertyFold) error { has = true; return store.ErrStop })
	return has, err
}

// EverMentioned is of documents inside. A fact that is gone has no type any more, and is outside where types are limited.
func (s *scoped) EverMentioned(id, after string, fn func(string, []store.Past[store.MentionSupport]) error) error {
	if s.in == nil {
		return s.Snapshot.EverMentioned(id, after, fn)
	}
	if ok, err := s.in.isTyped(id); err != nil || !ok {
		return err
	}
	return s.Snapshot.EverMentioned(id, after, past(s.in, fn))
}

func (s *scoped) EverStated(id, after string, fn func(string, []store.Past[store.EvidenceSupport]) error) error {
	if s.in == nil {
		return s.Snapshot.EverStated(id, after, fn)
	}
	if s.in.labels != nil {
		if _, ok, err := s.Relation(id); err != nil || !ok {
			return err
		}
	}
	return s.Snapshot.EverStated(id, after, past(s.in, fn))
}

func past[S any](in *limits, fn func(string, []store.Past[S]) error) func(string, []store.Past[S]) error {
	return func(docID string, said []store.Past[S]) error {
		ok, err := in.admits(docID)
		if err != nil || !ok {
			return errors.Join(err, in.tick())
		}
		return fn(docID, said)
	}
}

// Matches of which both entities are inside.
func (s *scoped) Matches(entity string, fn func(store.Match) error) error {
	if s.in == nil {
		return s.Snapshot.Matches(entity, fn)
	}
	return s.Snapshot.Matches(entity, func(m store.Match) error {
		for _, id := range []string{m.A, m.B} {
			if _, ok, err := s.in.entity(id); err != nil || !ok {
				return errors.Join(err, s.in.tick())
			}
		}
		return fn(m)
	})
}

// ToldApart is not said under limits: that there are several things of a name may be known from outside alone.
func (s *scoped) ToldApart(entity string) (r store.Ruling, ok bool, err error) {
	if s.in == nil {
		return s.Snapshot.ToldApart(entity)
	}
	return r, false, nil
}

// Candidates are never inside.
func (s *scoped) Candidates(docID string, fn func(store.CandidateRecord) error) error {
	if s.in == nil {
		return s.Snapshot.Candidates(docID, fn)
	}
	return nil
}
