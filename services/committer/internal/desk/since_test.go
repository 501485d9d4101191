package desk

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of many the first few are kept, whatever order they come in, and no more than twice as many are held.
func TestEldest(t *testing.T) {
	e := NewEldest(10)
	for _, n := range rand.New(rand.NewSource(1)).Perm(1000) {
		e.Add(Since{ID: fmt.Sprint(n), Seq: uint64(n + 1)})
		require.Less(t, len(e.list), 20)
	}
	list := e.List()
	require.Len(t, list, 10)
	for i, s := range list {
		require.Equal(t, Since{ID: fmt.Sprint(i), Seq: uint64(i + 1)}, s)
	}
}
