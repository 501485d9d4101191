package rights_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/rights"
)

// Whom a refused subject takes is told from the one table.
func TestNeeds(t *testing.T) {
	type roles = []rights.Role
	for subject, want := range map[string]struct {
		roles roles
		users []string
	}{
		"factmill.g.review.approve":                    {roles{rights.Reviewer, rights.Operator}, nil},
		"factmill.g.query.stats":                       {roles{rights.Reader, rights.Reviewer, rights.Operator}, nil},
		"factmill.g.schema.put":                        {roles{rights.Operator}, nil},
		"factmill.g.ingest":                            {roles{rights.Publisher, rights.Operator}, nil},
		"factmill.g.jobs.get":                          {rights.Roles, nil},
		"factmill.g.candidates.undo":                   {nil, []string{"admin"}}, // between services
		"$O." + bus.BucketUploads + ".M.eA==":          {roles{rights.Publisher, rights.Operator}, nil},
		"$JS.API.STREAM.INFO.OBJ_" + bus.BucketUploads: {roles{rights.Publisher, rights.Operator}, nil},
		"$JS.API.STREAM.INFO." + bus.StreamIngest:      {nil, []string{"provision", "admin"}},
		"$JS.API.STREAM.DELETE." + bus.StreamIngest:    {nil, []string{"admin"}},
		"$SRV.PING": {nil, []string{"admin"}},
	} {
		r, u := rights.Needs(subject, false)
		require.Equal(t, want.roles, r, subject)
		require.Equal(t, want.users, u, subject)
	}
	r, u := rights.Needs(bus.Inbox("provision")+".abc.*", true)
	require.Nil(t, r)
	require.Equal(t, []string{"provision", "admin"}, u)
	r, u = rights.Needs("_INBOX.abc.*", true) // a service's seed in a person's hands
	require.Equal(t, rights.Roles, r)
	require.Equal(t, []string{"admin"}, u)
}
