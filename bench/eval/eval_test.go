package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/schema"
)

func open(t *testing.T, dir string) ([]Item, *schema.Schema) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "gold.jsonl"))
	require.NoError(t, err)
	defer f.Close()
	items, err := Read(f)
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(dir, "schema.yaml"))
	require.NoError(t, err)
	s, err := schema.Parse(b, "schema.yaml", nil)
	require.NoError(t, err)
	return items, s
}

func scores(t *testing.T, dir, docs string) (with, without *Score) {
	t.Helper()
	items, s := open(t, dir)
	bare, err := Without(s)
	require.NoError(t, err)
	require.Empty(t, bare.Rules().Entities)
	require.Equal(t, s.Fingerprint(), bare.Fingerprint())
	with, err = Run(t.Context(), items, s, docs)
	require.NoError(t, err)
	without, err = Run(t.Context(), items, bare, docs)
	require.NoError(t, err)
	return with, without
}

// In a domain of its own a `rules:` section raises both recalls by 0.15 at least, and costs no precision.
func TestRulesHelp(t *testing.T) {
	for _, name := range []string{"shipyards", "vineyards"} {
		with, without := scores(t, filepath.Join("../testdata/domain", name), "")
		for _, x := range [][2]Count{{with.AllEntities, without.AllEntities}, {with.AllRelations, without.AllRelations}} {
			require.GreaterOrEqual(t, x[0].Recall(), x[1].Recall()+0.15, name)
			require.GreaterOrEqual(t, x[0].Precision(), x[1].Precision(), name)
		}
	}
}

// The example corpus is plain enough to be read nearly whole without rules: they close most of the rest, and cost no precision.
func TestExampleCorpus(t *testing.T) {
	with, without := scores(t, "../../examples/observatories", "../../examples/observatories/docs")
	require.GreaterOrEqual(t, with.AllEntities.Recall(), 0.985)
	require.GreaterOrEqual(t, with.AllEntities.Precision(), 0.975)
	require.GreaterOrEqual(t, with.AllRelations.Recall(), 0.92)
	require.GreaterOrEqual(t, with.AllRelations.Precision(), 0.97)
	for _, x := range [][2]Count{{with.AllEntities, without.AllEntities}, {with.AllRelations, without.AllRelations}} {
		require.Greater(t, x[0].Recall(), x[1].Recall())
		require.GreaterOrEqual(t, x[0].Precision(), x[1].Precision())
	}
	var b bytes.Buffer
	require.NoError(t, with.Compare(&b, without))
	require.Equal(t, 2+8+1+9+1, strings.Count(b.String(), "\n"))
	b.Reset()
	require.NoError(t, with.Print(&b))
	require.Equal(t, 1+8+1+9+1, strings.Count(b.String(), "\n"))
}

// Two records of one file count as one; what is found twice counts once.
func TestRecordsOfAFile(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.csv"), []byte("id,text\n1,Ada Lovelace worked for Acme Ltd.\n2,Ada Lovelace met Bob Stone.\n"), 0o644))
	items, err := Read(strings.NewReader(`{"document":"a.csv","entities":[{"type":"Person","name":"Ada Lovelace"},{"type":"Person","name":"Eve Stone"}],"relations":[]}`))
	require.NoError(t, err)
	s, err := Run(t.Context(), items, schema.Default(), dir)
	require.NoError(t, err)
	require.Equal(t, Count{Right: 1, Found: 2, Gold: 2}, *s.Entities["Person"])
	require.Equal(t, []string{"a.csv: Person eve stone   | "}, s.Misses)
	_, err = Run(t.Context(), []Item{{Document: "none.txt"}}, schema.Default(), dir)
	require.ErrorIs(t, err, os.ErrNotExist)
}
