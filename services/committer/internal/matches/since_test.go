package matches

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// A match waits since the commit that found it unclear; one that was decided does not, and one whose decision is undone waits since then.
func TestOldest(t *testing.T) {
	r := newRoom(t)
	oldest := func(n int) (out []string) {
		t.Helper()
		list, err := r.Oldest(t.Context(), g, n)
		require.NoError(t, err)
		last := uint64(0)
		for _, s := range list {
			require.Greater(t, s.Seq, last)
			last = s.Seq
			one, err := r.Since(t.Context(), g, s.ID)
			require.NoError(t, err)
			require.Equal(t, s, one)
			out = append(out, s.ID)
		}
		return out
	}
	corp, ltd, ada := key("Organization:Acme", "Organization:ACME Corporation"), key("Organization:Acme Ltd", "Organization:ACME Corporation"), key("Person:Ada", "Person:Ada L")
	require.Equal(t, []string{corp, ltd, ada}, oldest(9))
	require.Equal(t, []string{corp, ltd}, oldest(2))
	list, err := r.Oldest(t.Context(), g, 9)
	require.NoError(t, err)
	require.Equal(t, []uint64{6, 7, 8}, []uint64{list[0].Seq, list[1].Seq, list[2].Seq}, "four documents and an active match went before")

	record := r.decide(api.MatchDecide{IDs: []string{id("Organization:Acme", "Organization:ACME Corporation")}, Decision: "same", Actor: "eva"}).Records[corp]
	require.Equal(t, []string{ltd, ada}, oldest(9))
	none, err := r.Since(t.Context(), g, corp)
	require.NoError(t, err)
	require.Zero(t, none.Seq)
	r.decide(api.MatchDecide{Record: record, Decision: "undo", Actor: "eva"})
	require.Equal(t, []string{ltd, ada, corp}, oldest(9))
	r.found("Organization:Acme Ltd", "Organization:ACME Corporation", "legal_suffix", 0.91, store.MatchActive)
	require.Equal(t, []string{ada, corp}, oldest(9))
	for _, no := range []string{"match|x|y", "nothing", key("Person:Ada", "Organization:Acme")} {
		s, err := r.Since(t.Context(), g, no)
		require.NoError(t, err)
		require.Zero(t, s.Seq)
	}
	gone, err := r.Oldest(t.Context(), "none", 9)
	require.NoError(t, err)
	require.Empty(t, gone)
}
