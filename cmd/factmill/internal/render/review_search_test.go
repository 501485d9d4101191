package render

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// What documents say cannot move the terminal, and what nobody reviewed says so.
func TestCandidateHits(t *testing.T) {
	var out strings.Builder
	require.NoError(t, CandidateHits(&out, api.SearchCandidatesReply{Total: 7, Results: []api.CandidateHit{
		{Key: "entity|l|x\x1b[2J", Kind: "entity", Label: "L\n", Text: "x\x1b[2Jy", State: "pending", Unreviewed: true, Reasons: []string{"undeclared_label"}},
		{Key: "property|born|ada|1815", Kind: "property", Label: "born", SourceText: "Ada", Text: "1815", State: "approved", Count: 1200, Documents: 3, Matched: 2, Confidence: 0.5},
	}}))
	lines := strings.Split(out.String(), "\n")
	require.Regexp(t, `^x\\x1b\[2Jy  \(L\\n\) +entity +pending \(unreviewed\) +0 +0 +0 +0\.00 +undeclared_label +entity\|l\|x\\x1b\[2J$`, lines[1])
	require.Regexp(t, `^Ada  born = 1815 +property +approved +2 +1,200 +3 +0\.50 +property\|born\|ada\|1815$`, lines[2])
	require.Equal(t, "2 of 7 candidates; these are no facts", lines[3])
}
