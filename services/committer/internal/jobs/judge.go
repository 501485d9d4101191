package jobs

import (
	"fmt"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// kindJob is the kind of conditions that hold jobs.
const kindJob = "job"

// jobCondition is a condition of review.manual that is about jobs, and its place there.
type jobCondition struct {
	schema.Condition
	index int
}

// jobConditions are those of a schema; conditions of no kind are about items, and hold no job.
func jobConditions(s *schema.Schema) (out []jobCondition) {
	for i, c := range s.Review().Manual {
		if c.Kind == kindJob {
			out = append(out, jobCondition{c, i})
		}
	}
	return out
}

// judge asks the review policy about a job. Under a policy that may hold jobs, documents that commit on their own wait until the job is
// complete too: only then is it known whether it has to wait for a person.
func (m *Machine) judge(k key, l *live, complete bool) (waits bool, err error) {
	m.mu.Lock()
	rec := l.rec
	tokens := l.tokens()
	m.mu.Unlock()
	sch, err := m.graphs.Schema(k.graph, rec.Job.SchemaRevision)
	if err != nil {
		return false, err
	}
	conditions := jobConditions(sch)
	if len(conditions) > 0 && !complete {
		return true, nil
	}
	by := ""
	for left := tokens; len(conditions) > 0 && by == "" && len(left) > 0; {
		docs, rest, _, err := m.changes(&rec, l, left)
		if err != nil {
			return false, err
		}
		left = rest
		for _, d := range docs {
			scope, err := m.scopeOf(k.graph, &d.change)
			if err != nil {
				return false, err
			}
			if c := holds(conditions, sch, &d.change, scope); c != nil {
				by = fmt.Sprintf("review.manual[%d]", c.index)
				if v := sch.Review().Version; v != "" {
					by += " of policy " + v
				}
				by += " (" + sch.ReviewFingerprint() + ")"
				break
			}
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if by != "" && l.rec.State == api.JobPending {
		l.rec.Hold, l.rec.HeldBy = true, by // written when it is held
		return true, nil
	}
	l.judged = complete || len(conditions) == 0
	return false, nil
}

// scopeOf is the scope of a document: the one that is staged, of a delete the stored one.
func (m *Machine) scopeOf(g string, c *store.DocChange) (graph.Scope, error) {
	if c.Decision != graph.Delete {
		return c.Meta.Scope, nil
	}
	sn, err := m.st.Snapshot(g, 0)
	if err != nil {
		return nil, err
	}
	d, _, err := sn.DocByKey(c.Meta.Key)
	if e := sn.Close(); err == nil {
		err = e
	}
	return d.Meta.Scope, err
}

// holds is the first condition that a document of a job meets: by itself, or by something that it states. A condition that does not say
// deletes is about any job, one with deletes about documents that go.
func holds(conditions []jobCondition, sch *schema.Schema, c *store.DocChange, scope []string) *jobCondition {
	if c.Decision == graph.NoOp {
		return nil
	}
	fits := func(it schema.Item) *jobCondition {
		it.Kind, it.Scopes = kindJob, scope
		for i := range conditions {
			x := conditions[i]
			it.Deletes = x.Deletes != nil && *x.Deletes
			if it.Deletes && c.Decision != graph.Delete {
				continue
			}
			if x.Deletes != nil && !*x.Deletes && c.Decision == graph.Delete {
				continue
			}
			if x.Fits(it) {
				return &conditions[i]
			}
		}
		return nil
	}
	if x := fits(schema.Item{}); x != nil {
		return x
	}
	label := func(n int) string {
		if n < 0 || n >= len(c.Assertions.Entities) {
			return ""
		}
		return c.Assertions.Entities[n].Label
	}
	for _, chunk := range c.Assertions.Chunks {
		for _, x := range chunk.Mentions {
			if r := fits(schema.Item{Label: label(x.Entity), Confidence: x.Confidence, Scored: true, Assertion: "explicit", Extractors: []string{x.Extractor}}); r != nil {
				return r
			}
		}
		for _, x := range chunk.Properties {
			spec, _ := sch.Property(label(x.Entity), x.Name)
			for _, name := range []string{x.Name, label(x.Entity) + "." + x.Name} {
				if r := fits(schema.Item{Label: name, Confidence: x.Confidence, Scored: true, Assertion: "explicit", Extractors: []string{x.Extractor}, Sensitive: spec.Sensitive}); r != nil {
					return r
				}
			}
		}
		for _, x := range chunk.Relations {
			if r := fits(schema.Item{Label: x.Type, Confidence: x.Confidence, Scored: true, Assertion: x.AssertionKind(), Extractors: []string{x.Extractor}}); r != nil {
				return r
			}
		}
	}
	return nil
}
