package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSmoke(t *testing.T) {
	start := time.Now()
	f := newFleet(t, fleetOptions{})
	t.Log("up", time.Since(start))
	c := newCorpus(1, 150, 50)
	for _, g := range []string{"a", "b"} {
		f.putSchema(g, corpusSchemaText())
		f.putSettings(g, map[string]string{"chunker.size": "40"})
		start = time.Now()
		s := f.run(g, map[string]any{"documents": append(append([]paper{}, c.docs...), c.file())})
		t.Logf("%v %+v %+v", time.Since(start), s.Documents, s.Stages)
	}
	a := f.exported("a", 0)
	require.Equal(t, a, f.exported("b", 0))
	require.NotEmpty(t, a)
	t.Log(len(a))
	t.Log(a[len(a)-3000:])
	f.sound("a")
}
