package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// rule puts a ruling, or takes it away (nil), and returns the commit's sequence.
func (d *desk) rule(owner, property string, r *store.Ruling) uint64 {
	d.tb.Helper()
	txn, err := d.st.Begin(d.tb.Context(), g)
	require.NoError(d.tb, err)
	if r == nil {
		require.NoError(d.tb, txn.DropRuling(owner, property))
	} else {
		r.Owner, r.Property = owner, property
		require.NoError(d.tb, txn.PutRuling(*r))
	}
	done, err := txn.Finish(d.tb.Context(), nil)
	require.NoError(d.tb, err)
	return done.Seq
}

func decodeRow(t *testing.T, line string, into any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(line), into))
}

func then(r *store.Ruling, decision, value string) *store.Ruling {
	n := r.Then(decision, value, nil)
	return &n
}

// said is a property in words: "value, others; rejected ones in brackets".
func said(row map[string]graph.PropertyRow, name string) string {
	p, ok := row[name]
	if !ok {
		return ""
	}
	out := fmt.Sprint(p.Value)
	for _, o := range p.Others {
		if out += fmt.Sprint(", ", o.Value); o.Rejected {
			out += " (rejected)"
		}
	}
	return out
}

// What people decided about a property stands above the merge rule of the schema, for every reader, as of the sequence that is read.
func TestReadersApplyRulings(t *testing.T) {
	d := newDesk(t)
	born := func(name, year string) *doc {
		return newDoc(name, "Ada Lovelace was born in "+year+".").say(ada).property(ada, "born", year, year, 0.7)
	}
	first := d.commit(born("a", "1815"), born("b", "1815"), born("c", "1816"), born("d", "1817"))
	read := func(asOf uint64) string {
		r, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), AsOf: asOf})
		require.NoError(t, err)
		for _, e := range r.Entity.Properties["born"].Evidence {
			require.Contains(t, fmt.Sprint(r.Entity.Properties["born"].Value), e.Quote)
		}
		var exported struct{ Properties map[string]graph.PropertyRow }
		for _, line := range strings.Split(d.export(api.Export{Canonical: true, Seq: asOf}), "\n") {
			if strings.Contains(line, `"kind":"entity"`) {
				decodeRow(t, line, &exported)
			}
		}
		require.Equal(t, said(exported.Properties, "born"), said(r.Entity.Properties, "born"), "the export says the same")
		return said(r.Entity.Properties, "born")
	}
	require.Equal(t, "1815, 1816, 1817", read(0))
	chosen := d.rule(entID(ada), "born", then(nil, store.RuleChoose, "s1817"))
	require.Equal(t, "1817, 1815, 1816", read(0))
	d.commit(deleted("d"))
	require.Equal(t, "1815, 1816", read(0), "nobody says what was chosen")
	d.commit(born("e", "1817"))
	require.Equal(t, "1817, 1815, 1816", read(0))
	d.rule(entID(ada), "born", then(then(nil, store.RuleReject, "s1815"), store.RuleReject, "s1817"))
	require.Equal(t, "1816, 1815 (rejected), 1817 (rejected)", read(0))
	d.commit(deleted("c"))
	require.Empty(t, read(0), "what is left was rejected")
	d.rule(entID(ada), "born", then(nil, store.RuleKeepAll, ""))
	require.Equal(t, "[1815 1817]", read(0))
	require.Equal(t, "1817, 1815, 1816", read(chosen))
	require.Equal(t, "1815, 1816, 1817", read(first))
	d.rule(entID(ada), "born", nil)
	require.Equal(t, "1815, 1817", read(0))
}

// Of a property with several values one is shown when it was chosen; those of relations follow rulings too.
func TestRulingsOfListsAndRelations(t *testing.T) {
	d := newDesk(t)
	since := func(name string, year int64) *doc {
		return newDoc(name, "Ada Lovelace worked for Acme Ltd.").say(ada, acme).property(ada, "langs", "L"+name, "Ada Lovelace", 0.7).
			relateWith(graph.RelationA{Type: "WORKS_FOR", Confidence: 0.8, Extractor: "rules", Properties: map[string]any{"since": year}}, ada, acme, "Ada Lovelace worked for Acme Ltd.")
	}
	d.commit(since("a", 1840), since("b", 1841))
	read := func() string {
		r, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada)})
		require.NoError(t, err)
		return fmt.Sprint(said(r.Entity.Properties, "langs"), " ", r.Relations[0].Properties["since"])
	}
	require.Equal(t, "[La Lb] 1840", read())
	works := relID("WORKS_FOR", ada, acme)
	d.rule(works, "since", then(nil, store.RuleChoose, "n1841"))
	d.rule(entID(ada), "langs", then(nil, store.RuleChoose, "sLb"))
	require.Equal(t, "Lb, La 1841", read())
	d.rule(works, "since", then(then(nil, store.RuleReject, "n1841"), store.RuleReject, "n1840"))
	d.rule(entID(ada), "langs", then(nil, store.RuleReject, "sLb"))
	require.Equal(t, "[La], Lb (rejected) <nil>", read())
}

// The canonical export says what was decided, in whole and by pages; without rulings it has no such rows.
func TestExportOfRulings(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	d.commit(a, b)
	require.NotContains(t, d.export(api.Export{Canonical: true}), "conflict|")
	d.rule(entID(ada), "born", then(nil, store.RuleChoose, "n1815"))
	d.rule(entID(ada), "age", then(nil, store.RuleReject, "n3"))
	d.rule(entID("Person:Gone"), "age", then(nil, store.RuleKeepAll, ""))
	rows := map[string]string{}
	whole := d.export(api.Export{Canonical: true})
	for _, line := range strings.Split(whole, "\n") {
		var row graph.DecisionRow
		if strings.Contains(line, `"kind":"decision"`) {
			decodeRow(t, line, &row)
			require.JSONEq(t, fmt.Sprintf(`{"key":%q,"kind":"decision","state":%q}`, row.Key, row.State), line)
			rows[row.Key] = row.State
		}
	}
	require.Equal(t, map[string]string{fingerprint.ConflictKey(entID(ada), "born"): "approved", fingerprint.ConflictKey(entID(ada), "age"): "rejected",
		fingerprint.ConflictKey(entID("Person:Gone"), "age"): "approved"}, rows)
	paged, _ := d.pages(api.Export{Canonical: true})
	require.Equal(t, whole, paged)
	require.Contains(t, d.export(api.Export{Candidates: true}), `"at":"2026`)
	require.NotContains(t, d.export(api.Export{}), "conflict|")
}
