package ingest

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func tree(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{
		"docs/b.md": "B", "docs/a.txt": "A", "docs/sub/c.md": "C", "docs/sub/deep/d.md": "D", "docs/.hidden": "H", "docs/.git/e.md": "E",
		"top.md": "T", "we[ird].md": "W",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		require.NoError(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

func keys(files []File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Key)
	}
	return out
}

func TestCollect(t *testing.T) {
	tree(t)
	abs, err := filepath.Abs("docs/a.txt")
	require.NoError(t, err)
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"docs"}, []string{"docs/a.txt", "docs/b.md", "docs/sub/c.md", "docs/sub/deep/d.md"}},
		{[]string{"./docs/../docs/"}, []string{"docs/a.txt", "docs/b.md", "docs/sub/c.md", "docs/sub/deep/d.md"}},
		{[]string{"."}, []string{"docs/a.txt", "docs/b.md", "docs/sub/c.md", "docs/sub/deep/d.md", "top.md", "we[ird].md"}},
		{[]string{"docs/*.md"}, []string{"docs/b.md"}},
		{[]string{"docs/**/*.md"}, []string{"docs/b.md", "docs/sub/c.md", "docs/sub/deep/d.md"}},
		{[]string{"**/[cd].md"}, []string{"docs/sub/c.md", "docs/sub/deep/d.md"}},
		{[]string{"docs/sub/[!c].md", "docs/?.txt"}, nil},
		{[]string{"we[ird].md"}, []string{"we[ird].md"}}, // a file of that very name
		{[]string{"docs/.hidden"}, []string{"docs/.hidden"}},
		{[]string{"docs/b.md", "docs/*.md", "top.md"}, []string{"docs/b.md", "top.md"}},
		{[]string{abs}, []string{filepath.ToSlash(abs)}},
	} {
		files, problems, err := Collect(c.args)
		if c.want == nil {
			require.ErrorContains(t, err, "matches no file")
			continue
		}
		require.NoError(t, err, c.args)
		require.Empty(t, problems)
		require.Equal(t, c.want, keys(files), c.args)
	}
}

func TestCollectErrors(t *testing.T) {
	tree(t)
	require.NoError(t, os.Mkdir("empty", 0o755))
	for arg, want := range map[string]string{
		"missing.txt": "missing.txt: no such file or directory",
		"":            "an argument is empty: name a file, a directory or a glob",
		"empty":       "empty: there are no files in it",
		"nodir/*.md":  "nodir: no such file or directory",
		"*.pdf":       "*.pdf matches no file",
		"x[":          "x[: bad pattern: a [ has no ]",
	} {
		_, _, err := Collect([]string{arg})
		require.EqualError(t, err, want)
	}
}

func TestCollectLinks(t *testing.T) {
	tree(t)
	require.NoError(t, os.Symlink("../top.md", "docs/link.md"))
	require.NoError(t, os.Symlink("..", "docs/loop"))
	require.NoError(t, os.Symlink("nowhere", "docs/broken"))
	require.NoError(t, os.Symlink("docs", "alias"))
	files, problems, err := Collect([]string{"docs"})
	require.NoError(t, err)
	require.Equal(t, []string{"docs/a.txt", "docs/b.md", "docs/link.md", "docs/sub/c.md", "docs/sub/deep/d.md"}, keys(files))
	require.Len(t, problems, 2)
	require.EqualError(t, problems[0], "docs/broken: no such file or directory")
	require.False(t, problems[0].Harmless)
	require.EqualError(t, problems[1], "docs/loop: it is a link to a directory; such links are not followed")
	require.True(t, problems[1].Harmless)
	files, _, err = Collect([]string{"alias"})
	require.NoError(t, err)
	require.Equal(t, "alias/a.txt", files[0].Key)
}

// memory is a bucket in memory.
type memory struct {
	objects map[string][]byte
	reads   []int
	fail    error
}

func (m *memory) Put(_ context.Context, meta jetstream.ObjectMeta, r io.Reader) (*jetstream.ObjectInfo, error) {
	buf := make([]byte, 128<<10)
	var all []byte
	for {
		n, err := r.Read(buf)
		if n > 0 {
			m.reads = append(m.reads, n)
			all = append(all, buf[:n]...)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if m.fail != nil {
			return nil, m.fail
		}
	}
	m.objects[meta.Name] = all
	return &jetstream.ObjectInfo{}, nil
}

func (m *memory) Delete(_ context.Context, name string) error {
	delete(m.objects, name)
	return nil
}

func upload(m *memory) Upload {
	return Upload{Store: m, Bucket: "B", Skip: func(p Problem) error { return p }, Progress: func(int64) {}}
}

func inMemory(n int, size int) []File {
	fsys := fstest.MapFS{}
	for i := range n {
		fsys[string(rune('a'+i))+".txt"] = &fstest.MapFile{Data: []byte(strings.Repeat("x", size))}
	}
	files, err := FromFS(fsys, "docs/")
	if err != nil {
		return nil
	}
	return files
}

func TestSend(t *testing.T) {
	m := &memory{objects: map[string][]byte{}}
	u := upload(m)
	u.Meta = events.InputDocument{Scope: graph.Scope{"public"}, Metadata: map[string]any{"year": 2024}}
	var read int64
	u.Progress = func(n int64) { read = n }
	files := inMemory(5, 5<<20) // 25 MiB: two bundles
	sent, err := u.Send(t.Context(), files)
	require.NoError(t, err)
	require.Equal(t, 5, sent.Files)
	require.Len(t, sent.Names, 2)
	require.Equal(t, int64(25<<20), read)
	require.Equal(t, []string{"object:B/" + sent.Names[0], "object:B/" + sent.Names[1]}, sent.Sources("B"))
	var got []string
	for _, n := range sent.Names {
		require.True(t, strings.HasSuffix(n, ".tar"))
		r := bundle.NewReader(strings.NewReader(string(m.objects[n])))
		for {
			e, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(t, err)
			require.Equal(t, graph.Scope{"public"}, e.Meta.Scope)
			require.Len(t, e.Data, 5<<20)
			got = append(got, e.Name)
		}
	}
	require.Equal(t, keys(files), got)
	full := 0
	for _, n := range m.reads {
		if n == 128<<10 {
			full++
		}
	}
	require.GreaterOrEqual(t, full, len(m.reads)-2, "all messages but the last of a bundle are full")
	require.NoError(t, u.Remove(t.Context(), sent))
	require.Empty(t, m.objects)
}

func TestSendSkips(t *testing.T) {
	m := &memory{objects: map[string][]byte{}}
	u := upload(m)
	var skipped []string
	u.Skip = func(p Problem) error { skipped = append(skipped, p.Error()); return nil }
	files := inMemory(2, 10)
	files = append(files, File{Key: "gone.txt", Open: func() (fs.File, error) {
		return nil, &fs.PathError{Op: "open", Path: "gone.txt", Err: fs.ErrPermission}
	}})
	sent, err := u.Send(t.Context(), append(files, inMemory(1, bundle.MaxEntry+1)...))
	require.NoError(t, err)
	require.Equal(t, 2, sent.Files)
	require.Equal(t, []string{"gone.txt: permission denied",
		"docs/a.txt: it has more than 33554432 bytes, which one document may have: split it"}, skipped)

	// Nothing is left of an upload in which every file was passed over.
	sent, err = u.Send(t.Context(), files[2:])
	require.NoError(t, err)
	require.Zero(t, sent.Files)
	require.Empty(t, sent.Names)
	require.Len(t, m.objects, 1)
}

func TestSendFails(t *testing.T) {
	m := &memory{objects: map[string][]byte{}}
	u := upload(m)
	files := append(inMemory(4, 6<<20), File{Key: "gone.txt", Open: func() (fs.File, error) { return nil, fs.ErrNotExist }})
	_, err := u.Send(t.Context(), files)
	require.EqualError(t, err, "gone.txt: file does not exist")
	require.Empty(t, m.objects, "what was sent before it is deleted")

	m.fail = errors.New("bucket full")
	_, err = u.Send(t.Context(), inMemory(1, 1<<20))
	require.EqualError(t, err, "upload to B: bucket full")
	require.Empty(t, m.objects)
}
