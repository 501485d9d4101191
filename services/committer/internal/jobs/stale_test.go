package jobs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func TestStalePolicy(t *testing.T) {
	const types = `"name":"t","entities":[{"label":"Person","properties":{"born":{"type":"date","sensitive":true},"nick":{}}},{"label":"Guild"}],"relations":[{"label":"MEMBER_OF","patterns":[["Person","Guild"]]},{"label":"KNOWS","patterns":[["Person","Person"]]}]`
	member := store.StaleFact{Kind: graph.KindRelation, Label: "MEMBER_OF", Types: []string{"Person", "Guild"}, Confidence: 0.8, Assertions: []string{"explicit"}, Extractors: []string{"rules"}}
	knows, born, nick, gone := member, member, member, member
	knows.Label, knows.Types = "KNOWS", []string{"Person", "Person"}
	born.Kind, born.Label, born.Types = graph.KindProperty, "born", []string{"Person"}
	nick.Kind, nick.Label, nick.Types = graph.KindProperty, "nick", []string{"Person"}
	gone.Label = "LED"
	kept, keptGone := member, gone
	kept.Kept, keptGone.Kept = true, true
	decided := member
	decided.Decided = true
	for _, c := range []struct {
		review                             string
		member, knows, born, nick, decided string
	}{
		{``, "withdraw", "withdraw", "withdraw", "withdraw", "review"},
		{`{"stale":"review"}`, "review", "review", "review", "review", "review"},
		{`{"stale":"keep"}`, "keep", "keep", "keep", "keep", "keep"},
		{`{"manual":[{"kind":"stale","label":"MEMBER_OF","deletes":true}]}`, "review", "withdraw", "withdraw", "withdraw", "review"},
		{`{"manual":[{"kind":"property","sensitive":true,"deletes":true}]}`, "withdraw", "withdraw", "review", "withdraw", "review"},
		{`{"stale":"review","auto_accept":[{"kind":"stale","label":"KNOWS","deletes":true}],"auto_reject":[{"label":"nick","deletes":true}]}`, "review", "withdraw", "review", "keep", "review"},
		{`{"manual":[{"kind":"relation","label":"MEMBER_OF"}]}`, "withdraw", "withdraw", "withdraw", "withdraw", "review"}, // about what comes
	} {
		src := "{" + types + "}"
		if c.review != "" {
			src = "{" + types + `,"review":` + c.review + "}"
		}
		s, err := schema.Parse([]byte(src), "t", nil)
		require.NoError(t, err, src)
		p := stalePolicy(s)
		deleted := func(f store.StaleFact) string { f.Deleted = true; return p(f) }
		want := []string{c.member, c.knows, c.born, c.nick}
		if !strings.Contains(c.review, "deletes") {
			want = []string{"withdraw", "withdraw", "withdraw", "withdraw"} // a deleted document's facts go, whatever stale says
		} else if strings.Contains(c.review, `"stale":"review"`) {
			want = []string{"withdraw", "withdraw", "withdraw", "keep"}
		}
		require.Equal(t, append(want, want[0], "withdraw"), []string{deleted(member), deleted(knows), deleted(born), deleted(nick), deleted(decided), deleted(gone)}, c.review)
		require.Equal(t, []string{c.member, c.knows, c.born, c.nick, c.decided, "withdraw", "keep", "withdraw"}, []string{p(member), p(knows), p(born), p(nick), p(decided), p(gone), p(kept), p(keptGone)}, c.review)
	}
}
