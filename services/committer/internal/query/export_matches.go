package query

import (
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func matchRow(m store.Match) graph.MatchRow {
	return graph.MatchRow{A: m.A, B: m.B, ID: fingerprint.MatchID(m.A, m.B), Kind: "match", Method: m.Method, Score: graph.Round6(m.Score), State: m.State()}
}

func (x *exporter) matches(at exportAt) error {
	a, b, _ := strings.Cut(at.After, " ")
	return x.v.sn.MatchesAll(store.Match{A: a, B: b}, func(m store.Match) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		return x.json(matchRow(m), exportAt{Seq: at.Seq, Phase: phaseMatches, After: m.A + " " + m.B})
	})
}

// verdicts are the decisions about matches, whether their entities are there or not.
func (x *exporter) verdicts(at exportAt) error {
	if !x.req.Canonical && !x.req.Candidates {
		return nil
	}
	a, b, _ := strings.Cut(at.After, " ")
	return x.v.sn.Verdicts(store.Verdict{A: a, B: b}, func(d store.Verdict) error {
		if err := x.v.tick(); err != nil {
			return err
		}
		row := graph.DecisionRow{Key: fingerprint.MatchKey(d.A, d.B), Kind: "decision", State: d.State}
		pos := exportAt{Seq: at.Seq, Phase: phaseVerdicts, After: d.A + " " + d.B}
		if x.req.Canonical {
			return x.json(row, pos)
		}
		return x.json(fullDecision{row, d.At}, pos)
	})
}
