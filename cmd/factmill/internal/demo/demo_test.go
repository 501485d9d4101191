package demo

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

const example = "../../../../examples/observatories"

// The copy is the example, byte for byte and file for file.
func TestCopy(t *testing.T) {
	docs, err := Docs()
	require.NoError(t, err)
	want, got := contents(t, os.DirFS(example+"/docs")), contents(t, docs)
	require.NotEmpty(t, want)
	require.Equal(t, want, got, "run: go generate ./internal/demo")
	schema, err := Schema()
	require.NoError(t, err)
	file, err := os.ReadFile(example + "/schema.yaml")
	require.NoError(t, err)
	require.Equal(t, string(file), string(schema), "run: go generate ./internal/demo")
}

func contents(t *testing.T, fsys fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	require.NoError(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, name)
		out[name] = string(b)
		return err
	}))
	return out
}
