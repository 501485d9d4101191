package store

import (
	"errors"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/plan"
)

// stale are the items that come and go, and what is kept without one.
func (e *documentEffect) stale() error {
	for fact, k := range e.now.kept {
		was := e.was.kept[fact]
		switch {
		case k.Asked && (was == nil || !was.Asked):
			if err := e.keptChange(plan.Add, changeStale, k); err != nil {
				return err
			}
		case !k.Asked && was == nil:
			if err := e.keptChange(plan.Add, changeKept, k); err != nil {
				return err
			}
		}
	}
	for fact, k := range e.was.kept {
		if now := e.now.kept[fact]; k.Asked && (now == nil || !now.Asked) {
			if err := e.keptChange(plan.Remove, changeStale, k); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *documentEffect) keptChange(op, kind string, k *Kept) error {
	ends := make([]id, len(k.Ends))
	for i, x := range k.Ends {
		var err error
		if ends[i], err = mustID(x.ID); err != nil {
			return err
		}
	}
	c := e.change(op, kind, k.Name)
	var documents int
	var err error
	if k.Type != "" {
		fact, err := k.FactID()
		if err != nil {
			return err
		}
		v, err := mustID(fact)
		if err != nil {
			return err
		}
		if documents, err = e.relationDocuments(v); err != nil {
			return err
		}
		c.Label = k.Type
		if err := e.ends(&c, ends[0], ends[1]); err != nil {
			return err
		}
	} else {
		vk, err := valueKey(k.Value)
		if err != nil {
			return err
		}
		if documents, err = e.valueDocuments(propID{ends[0], k.Name, vk}); err != nil {
			return err
		}
		c.SourceID, c.Value = ends[0].String(), canonicalValue(k.Value)
		if c.Source, err = e.name(ends[0]); err != nil {
			return err
		}
	}
	c.Left = left(op, documents)
	if op == plan.Add {
		err = e.quote(&c, evidenceSpans(k.Version, k.Spans))
	}
	e.out = append(e.out, c)
	return err
}

// records are the candidates of the document, before or after the commit.
func (e *documentEffect) records(base bool) (map[string]CandidateRecord, error) {
	if !base {
		return e.t.docRecords(e.id)
	}
	it, err := e.t.iter(false)
	if err != nil {
		return nil, err
	}
	out := map[string]CandidateRecord{}
	err = scanRows(it, newKey(e.t.g.id, spaceCand).id(e.id), nil, e.t.current, false, func(_ key, v []byte) error {
		var r CandidateRecord
		if err := decodeJSON(v, &r); err != nil {
			return err
		}
		out[r.Key] = r
		return nil
	})
	return out, err
}

func (e *documentEffect) candidates() error {
	was, err := e.records(true)
	if err != nil {
		return err
	}
	now, err := e.records(false)
	if err != nil {
		return err
	}
	for k, r := range now {
		old, had := was[k]
		if !had {
			err = errors.Join(err, e.candidate(plan.Add, r))
		} else if !sameRecord(old, r) {
			e.restated++
		}
	}
	for k, r := range was {
		if _, has := now[k]; !has {
			err = errors.Join(err, e.candidate(plan.Remove, r))
		}
	}
	return err
}

func (e *documentEffect) candidate(op string, r CandidateRecord) error {
	c := e.change(op, changeCandidate, r.Label)
	c.Source, c.Target, c.Value = r.SourceText, r.TargetText, r.Key
	switch r.Kind {
	case graph.KindEntity:
		c.Source = r.Text
	case graph.KindProperty:
		c.Target = r.Text
	}
	if r.State != "" && op == plan.Add {
		c.Was = r.State // approved ones join the decision on their key
	}
	e.out = append(e.out, c)
	return e.quote(&e.out[len(e.out)-1], []span{{r.Version, r.Start, r.End}})
}
