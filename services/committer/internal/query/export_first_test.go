package query

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

// TestExportPagesOfALongFirstRow: a row that is written in pieces is the first of its phase, and is resumed behind the part that a
// document added to it. The pages must come to an end.
func TestExportPagesOfALongFirstRow(t *testing.T) {
	d := newDesk(t)
	const docs, each = 4, 9000
	for i := range docs {
		x := newDoc(fmt.Sprintf("doc-%d", i), strings.Repeat("Ada ", each))
		for n := range each {
			x.mentionAt("Person:Ada", "Ada", 0, 4*n)
		}
		d.commit(x)
	}
	whole := &strings.Builder{}
	require.NoError(t, d.q.ExportTo(t.Context(), g, api.Export{Canonical: true}, whole))
	require.Greater(t, whole.Len(), 3*pageBytes)

	var out strings.Builder
	var rows api.ExportRows
	req := api.Export{Canonical: true}
	for pages := 0; ; pages++ {
		require.Less(t, pages, 20, "the pages do not end")
		page, err := d.q.Export(t.Context(), g, req)
		require.NoError(t, err)
		for _, r := range rows.Add(page) {
			out.Write(r)
			out.WriteByte('\n')
		}
		if req.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	require.Equal(t, whole.String(), out.String())
	for line := range strings.Lines(out.String()) {
		var e graph.EntityRow
		if strings.Contains(line, `"kind":"entity"`) {
			require.NoError(t, json.Unmarshal([]byte(line), &e))
			require.Len(t, e.Mentions, docs*each)
		}
	}
}
