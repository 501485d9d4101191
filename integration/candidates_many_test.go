package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/testkit"
)

// Every page of a list fits a message, whatever its texts need as JSON, and the pages are the whole list.
func TestPagesFitAMessage(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	const docs, each = 12, 50
	var list []map[string]any
	for d := range docs {
		text := ""
		for i := range each {
			wide := strings.Repeat("<&>", 60)
			text += fmt.Sprintf("«%s%d: %s%d @0.9»\n\n", strings.Repeat("L", 100), d, wide, d*each+i)
		}
		list = append(list, doc(fmt.Sprint(strings.Repeat("key&", 100), d), text))
	}
	f.run("g", map[string]any{"documents": list})
	most := int(f.conn.NC.MaxPayload())
	seen := map[string]bool{}
	limit, cursor, pages := 1000, "", 0
	for {
		var raw json.RawMessage
		require.NoError(t, f.conn.Request(t.Context(), "factmill.g.review.list", api.ReviewList{Limit: &limit, Cursor: cursor}, &raw))
		require.Less(t, len(raw), most)
		page := loose[api.ReviewListReply](t, string(raw))
		require.Equal(t, docs*each, page.Total)
		for _, g := range page.Groups {
			require.False(t, seen[g.Key])
			seen[g.Key] = true
		}
		pages++
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	require.Len(t, seen, docs*each)
	require.Greater(t, pages, 1)
}

// A candidate of many documents is shown, too: with as many of its sources as fit.
func TestShowOfManyDocumentsFits(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	const docs = 200
	around := strings.Repeat("<&>", 60)
	var list []map[string]any
	for d := range docs {
		list = append(list, doc(fmt.Sprintf("d%03d", d), around+" «Craft: "+around+"7 @0.9» "+around))
	}
	f.run("g", map[string]any{"documents": list})
	g := f.groups("g")
	require.Len(t, g, 1)
	require.Equal(t, []int{docs, docs, 100}, []int{g[0].Count, g[0].Documents, len(g[0].IDs)})
	shown := ask[api.ReviewShowReply](f.cluster, "g", "review.show", api.ReviewShow{Key: g[0].Key})
	require.Equal(t, g[0], shown.Item)
	require.Len(t, shown.Evidence, 1)
	require.Equal(t, "d000", shown.Evidence[0].Document)
	require.Greater(t, len(shown.Records), 50)
	require.Len(t, shown.OtherSources, len(shown.Records)-1)
}

// A long value is a candidate as it stands, and so are two that begin alike; one that is too long is counted and no candidate at all, since half
// of a value is not what the document says.
func TestLongValuesAreWhole(t *testing.T) {
	head := strings.Repeat("ever onward ", 60)
	values := []string{head + "to the sea", head + "to the sky", head + strings.Repeat("and on ", 300) + "."}
	m := testkit.NewModel(t, testkit.ModelOptions{Reply: func(c testkit.ModelCall) testkit.ModelReply {
		var entities []map[string]any
		for _, v := range values {
			if strings.Contains(c.Last(), v) {
				entities = append(entities, map[string]any{"name": "Acme", "type": "Organization", "properties": map[string]any{"motto": v}})
			}
		}
		b, err := json.Marshal(map[string]any{"entities": entities})
		if err != nil {
			panic(err)
		}
		return testkit.ModelReply{Content: string(b)}
	}})
	f := asking(t, fleetOptions{}, m, "g")
	f.putSettings("g", map[string]string{"chunker.size": "2000"})
	var list []map[string]any
	for i, v := range values {
		list = append(list, doc(fmt.Sprint("d", i), "Acme says: "+v))
	}
	s := f.run("g", map[string]any{"documents": list})
	require.Equal(t, []int{2, 0}, said(s))
	texts := []string{}
	for _, g := range f.groups("g") {
		require.Equal(t, "property", g.Kind)
		texts = append(texts, g.Text)
	}
	require.ElementsMatch(t, values[:2], texts)
	require.Contains(t, f.known("g", "d2"), "dropped motto limit ×1")
}

// Candidate events fit a message, however wide the labels, texts and scopes of their documents are; nothing waits behind one that does not.
func TestWideCandidatesAreTold(t *testing.T) {
	f := telling(t, fleetOptions{}, "g")
	var scope []string
	for i := range 32 {
		scope = append(scope, strings.Repeat("&", 126)+fmt.Sprintf("%02d", i))
	}
	text := ""
	const n = 150
	for i := range n {
		text += fmt.Sprintf("«%s: Thing %d @0.9» «%s -%s-> Acme @0.9»\n\n", strings.Repeat("&", 120), i, strings.Repeat("<", 190)+fmt.Sprint(i), strings.Repeat(">", 120))
	}
	s := f.run("g", map[string]any{"documents": []map[string]any{{"key": strings.Repeat("&", 300), "text": text, "scope": scope}}})
	require.Equal(t, []int{2 * n, 0}, said(s))
	told := 0
	_, last := f.spoken("g", 0)
	for _, e := range f.candidateEvents("g") {
		told += len(e.Items)
	}
	require.Equal(t, 2*n, told)
	require.Greater(t, last, uint64(2))
	require.Len(t, f.groups("g"), 2*n)
	f.decided("g", "reject", f.groups("g")[0].Key)
	require.Len(t, f.queue("g", "rejected"), 1)
}
