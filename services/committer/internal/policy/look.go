package policy

import (
	"context"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/candidates"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// reading is the graph as the policy reads it.
type reading struct {
	ctx   context.Context
	sn    *store.Snapshot
	trail audit.Trail
}

// look asks the policy about a key. seen (may be nil) is told each record that waits.
func (r *Rules) look(rd reading, key string, seen func(c *store.CandidateRecord, it schema.Item)) (o Outcome, err error) {
	if err := rd.ctx.Err(); err != nil {
		return o, err
	}
	_, decided, err := rd.sn.Decision(key)
	if err != nil {
		return o, err
	}
	err = rd.sn.CandidatesByKey(key, func(c store.CandidateRecord) error {
		if c.State != api.StatePending {
			return nil
		}
		var scopes []string
		if r.scopes {
			d, _, err := rd.sn.Doc(c.DocID)
			if err != nil {
				return err
			}
			scopes = d.Meta.Scope
		}
		it := r.item(&c, scopes)
		r.add(&o, &c, it)
		if seen != nil {
			seen(&c, it)
		}
		return nil
	})
	if err != nil || o.Records == 0 {
		return o, err
	}
	if decided {
		o.Why = api.PeopleDecided
	}
	if o.decides() {
		o.Why, err = rd.theirs(key)
	}
	return o, err
}

// theirs says why a key that the policy would decide is left to people for what they did to it before: edited it, or took a rejection of it
// back. Forgetting one that waited says nothing.
func (rd reading) theirs(key string) (why string, err error) {
	records, err := rd.trail.Of(key)
	if err != nil {
		return "", err
	}
	for _, a := range records {
		switch {
		case a.Policy != nil:
			return "", nil
		case a.Decision == events.DecisionPrune && a.Before == api.StatePending:
		case a.Decision == events.DecisionEdit:
			return api.PeopleEdited, nil
		case a.Decision == events.DecisionUndo, a.Decision == events.DecisionPrune:
			return api.PeopleTakenBack, nil
		default:
			return "", nil
		}
	}
	return "", nil
}

// approvable counts the records of a key that could be approved, and says why the first one that could not fails.
func (rd reading) approvable(ends *candidates.Ends, key string) (n int, why string, err error) {
	err = rd.sn.CandidatesByKey(key, func(r store.CandidateRecord) error {
		if r.State != api.StatePending {
			return nil
		}
		not, err := ends.Check(&r)
		if err != nil {
			return err
		}
		if not == "" {
			n++
		} else if why == "" {
			why, _, _ = strings.Cut(not, ":") // of a refused label, without what is wrong with it
		}
		return nil
	})
	return n, why, err
}
