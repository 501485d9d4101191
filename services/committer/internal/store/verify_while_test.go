package store

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// A check that meets commits, from their begin to their end, finds nothing wrong with them.
func TestVerifyWhileItIsWritten(t *testing.T) {
	s := memStore(t)
	reads(t, s, 1, "doc-0", member, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		var err error
		for n := 0; ctx.Err() == nil && err == nil; n++ {
			var txn *Txn
			if txn, err = s.Begin(context.Background(), g); err != nil {
				break
			}
			if _, err = txn.DecideCandidate(context.Background(), Decision{Key: "entity|person|" + string(rune('a'+n%26)), State: api.StateRejected}, nil); err == nil {
				_, err = txn.Finish(context.Background(), nil)
			}
		}
		ended <- err
	}()
	for range 25 {
		r, err := s.Verify(t.Context(), g, nil)
		require.NoError(t, err)
		require.Empty(t, r.Problems)
	}
	stop()
	require.NoError(t, <-ended)
}
