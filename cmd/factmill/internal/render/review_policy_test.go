package render

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// Everything that a dry run says is shown, escaped.
func TestPolicy(t *testing.T) {
	high, yes, no := 0.85, true, false
	r := api.ReviewPolicyReply{
		Seq: 4, Schema: "s\x1b[31m", SchemaVersion: "2", Version: "3", Fingerprint: "5f0c", Active: true, Keys: 1234, Records: 2000, Decided: 3,
		Conditions: []api.PolicyCondition{
			{PolicyRule: api.PolicyRule{List: "manual", Index: 0}, Condition: schema.Condition{Sensitive: &yes, Deletes: &no, Reason: "r", Assertion: "explicit", Extractor: "x", Scope: "y"}, Fits: 3, Keys: 2, Records: 3, Samples: []string{"a|\x1b"}},
			{PolicyRule: api.PolicyRule{List: "auto_accept", Index: 1}, Condition: schema.Condition{MinConfidence: &high}, Fits: 9, Keys: 1, Records: 1, Blocked: 4, Samples: []string{}},
		},
		People: map[string]int{api.PeopleTakenBack: 1, api.PeopleManual: 2, api.PeopleNoCondition: 1200, api.PeopleDiffer: 3, api.PeopleEdited: 4, api.PeopleDecided: 5}, Blocked: map[string]int{"endpoint_missing": 4},
		Unused: []api.PolicyRule{{List: "auto_reject", Index: 7}}, UnusedTotal: 3,
	}
	require.Equal(t, `policy 3 (5f0c), of schema s\x1b[31m 2: active
1,234 candidates wait in 2,000 records: 3 would be decided

manual[0]  {reason: r, assertion: explicit, extractor: x, scope: y, sensitive: true, deletes: false}
  keeps for people 2 candidates, in 3 records
    a|\x1b
    and 1 more

auto_accept[1]  {min_confidence: 0.85}
  approves 1 candidate, in 1 record; 4 cannot be approved yet

fits nothing that waits
  auto_reject[7]
  and 2 more

waits for people
  1,200  no condition fits
      2  a condition asks people
      3  its records get different verdicts
      4  somebody edited it
      5  somebody decided it, and a part failed alone
      1  somebody took a decision back
      4  it cannot be approved: endpoint_missing
`, shown(t, func(w io.Writer) error { return Policy(w, r) }))
}
