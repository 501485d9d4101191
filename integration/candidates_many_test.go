package integration

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
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
