package testkit

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// writes notes, for every write, whether the call had ended.
type writes struct {
	*httptest.ResponseRecorder
	ended bool
	seen  []bool
}

func (w *writes) Write(b []byte) (int, error) {
	w.seen = append(w.seen, w.ended)
	return w.ResponseRecorder.Write(b)
}

// TestModelCallEndsBeforeItsLastBytes: else a client's next call could be counted beside the one whose reply it has read.
func TestModelCallEndsBeforeItsLastBytes(t *testing.T) {
	w := &writes{ResponseRecorder: httptest.NewRecorder()}
	sendParts(w, [][]byte{[]byte("a"), []byte("b"), []byte("c")}, true, func() { w.ended = true })
	require.Equal(t, []bool{false, false, true}, w.seen)
	require.Equal(t, "abc", w.Body.String())

	none := &writes{ResponseRecorder: httptest.NewRecorder()}
	sendParts(none, nil, true, func() { none.ended = true })
	require.True(t, none.ended)
}
