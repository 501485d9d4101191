package files

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
)

// yard makes files below a new directory and returns it.
func yard(t *testing.T, names ...string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, n := range names {
		p := filepath.Join(dir, n)
		require.NoError(t, os.MkdirAll(filepath.Dir(p), 0o755))
		require.NoError(t, os.WriteFile(p, []byte(n), 0o644))
	}
	return dir
}

func tree(t *testing.T, all bool, roots ...string) *Tree {
	t.Helper()
	tr, err := New(roots, all)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr
}

func list(t *testing.T, tr *Tree, arg string) ([]string, error) {
	t.Helper()
	var out []string
	err := tr.List(t.Context(), arg, func(n string) error { out = append(out, n); return nil })
	return out, err
}

func bad(t *testing.T, err error, code, message string) {
	t.Helper()
	require.EqualError(t, err, message)
	require.Equal(t, fault.Document, fault.Of(err).Class)
	require.Equal(t, code, fault.Of(err).Code)
}

func TestList(t *testing.T) {
	dir := yard(t, "docs/b.txt", "docs/a/z.md", "docs/a/y.md", "docs/a-b.txt", "docs/.hidden", "docs/.git/x.txt", "docs/c.dat", "docs/[x].txt", "top.txt")
	require.NoError(t, os.Symlink("../top.txt", filepath.Join(dir, "docs", "link.txt")))
	require.NoError(t, os.Symlink("a", filepath.Join(dir, "docs", "linkdir")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "docs", "dangling.txt")))
	tr := tree(t, false, dir)
	for _, c := range []struct {
		arg  string
		want []string
	}{
		{"docs", []string{"docs/[x].txt", "docs/a/y.md", "docs/a/z.md", "docs/a-b.txt", "docs/b.txt", "docs/c.dat", "docs/dangling.txt", "docs/link.txt"}},
		{"./docs//a/", []string{"docs/a/y.md", "docs/a/z.md"}},
		{"docs/linkdir", []string{"docs/linkdir/y.md", "docs/linkdir/z.md"}},
		{"docs/.hidden", []string{"docs/.hidden"}},
		{"top.txt", []string{"top.txt"}},
		{"docs/*.txt", []string{"docs/[x].txt", "docs/a-b.txt", "docs/b.txt", "docs/dangling.txt", "docs/link.txt"}},
		{"docs/[!a-b]*.txt", []string{"docs/[x].txt", "docs/dangling.txt", "docs/link.txt"}},
		{"docs/[x].txt", []string{"docs/[x].txt"}},
		{"docs/?.txt", []string{"docs/b.txt"}},
		{"**/*.md", []string{"docs/a/y.md", "docs/a/z.md"}},
		{"*/a/**", []string{"docs/a/y.md", "docs/a/z.md"}},
		{"docs/.h*", []string{"docs/.hidden"}},
		{"docs/.g*/*", []string{"docs/.git/x.txt"}},
		{dir + "/docs/a", []string{dir + "/docs/a/y.md", dir + "/docs/a/z.md"}},
		{dir + "/*.txt", []string{dir + "/top.txt"}},
	} {
		got, err := list(t, tr, c.arg)
		require.NoError(t, err, c.arg)
		require.Equal(t, c.want, got, c.arg)
	}
	got, err := list(t, tr, ".")
	require.NoError(t, err)
	require.Equal(t, "top.txt", got[len(got)-1])
	require.Len(t, got, 9)

	stop := errors.New("stop")
	require.Equal(t, stop, tr.List(t.Context(), "docs", func(string) error { return stop }))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, tr.List(ctx, "docs", func(string) error { return nil }), context.Canceled)
}

func TestListRefuses(t *testing.T) {
	dir := yard(t, "in/a.txt", "out/secret.txt")
	require.NoError(t, os.Symlink(filepath.Join(dir, "out"), filepath.Join(dir, "in", "escape")))
	require.NoError(t, os.Symlink("loop", filepath.Join(dir, "in", "loop")))
	tr := tree(t, false, filepath.Join(dir, "in"))
	for _, c := range []struct{ arg, code, message string }{
		{"nope.txt", "source_not_found", `"nope.txt" does not exist`},
		{"a.txt/b", "source_not_found", `"a.txt/b" does not exist`},
		{"*.md", "source_not_found", `the pattern "*.md" matches no file`},
		{"sub/*.md", "source_not_found", `"sub" does not exist`},
		{"a[", "bad_value", `the pattern "a[" is malformed at "a["`},
		{strings.Repeat("*/", 63) + "*", "bad_value", `the pattern "` + strings.Repeat("*/", 63) + `*" has more than 62 parts`},
		{"../out/secret.txt", "path_outside_roots", `"../out/secret.txt" lies outside the loader's roots`},
		{"../out/*.txt", "path_outside_roots", `"../out/*.txt" lies outside the loader's roots`},
		{dir + "/out", "path_outside_roots", `"` + dir + `/out" lies outside the loader's roots`},
		{dir + "/out/nope", "path_outside_roots", `"` + dir + `/out/nope" lies outside the loader's roots`},
		{dir + "/in-other", "path_outside_roots", `"` + dir + `/in-other" lies outside the loader's roots`},
		{"escape", "path_outside_roots", `"escape" leads outside the loader's roots`},
		{"escape/secret.txt", "path_outside_roots", `"escape/secret.txt" leads outside the loader's roots`},
		{"loop", "unreadable", `"loop" cannot be read: EvalSymlinks: too many links`},
	} {
		_, err := list(t, tr, c.arg)
		bad(t, err, c.code, c.message)
	}
	none := tree(t, false)
	_, err := list(t, none, "/etc/hosts")
	bad(t, err, "path_outside_roots", `"/etc/hosts": this loader has no roots, so it reads no paths: set loader.roots, or upload the files`)
	_, err = New([]string{filepath.Join(dir, "gone")}, false)
	require.ErrorIs(t, err, os.ErrNotExist)
	_, err = New([]string{filepath.Join(dir, "in", "a.txt")}, false)
	require.Error(t, err)
}

func read(t *testing.T, tr *Tree, name string, limit int64) (string, error) {
	t.Helper()
	f, size, err := tr.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := Read(t.Context(), f, name, size, limit)
	return string(b), err
}

func TestOpen(t *testing.T) {
	dir := yard(t, "in/a.txt", "two/b.txt", "out/secret.txt")
	require.NoError(t, os.Symlink(filepath.Join(dir, "out", "secret.txt"), filepath.Join(dir, "in", "escape.txt")))
	require.NoError(t, os.Symlink(filepath.Join(dir, "in", "a.txt"), filepath.Join(dir, "in", "abs.txt")))
	socket := filepath.Join(dir, "in", "s.txt")
	if len(socket) < 100 {
		ln, err := net.Listen("unix", socket)
		require.NoError(t, err)
		defer ln.Close()
	}
	tr := tree(t, false, filepath.Join(dir, "in"), filepath.Join(dir, "two"))
	for name, want := range map[string]string{"a.txt": "in/a.txt", "abs.txt": "in/a.txt", "b.txt": "two/b.txt", dir + "/two/b.txt": "two/b.txt"} {
		got, err := read(t, tr, name, 100)
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	_, err := read(t, tr, "escape.txt", 100)
	bad(t, err, "path_outside_roots", `"escape.txt" leads outside the loader's roots`)
	_, err = read(t, tr, ".", 100)
	bad(t, err, "not_a_file", `"." is a directory`)
	_, err = read(t, tr, "gone.txt", 100)
	bad(t, err, "source_not_found", `"gone.txt" does not exist`)
	_, err = read(t, tr, "a.txt", 7)
	bad(t, err, "too_large", `"a.txt" has 8 bytes: at most 7`)
	if len(socket) < 100 {
		_, err = read(t, tr, "s.txt", 100)
		bad(t, err, "not_a_file", `"s.txt" is no regular file`)
	}
	all := tree(t, true)
	got, err := read(t, all, dir+"/out/secret.txt", 100)
	require.NoError(t, err)
	require.Equal(t, "out/secret.txt", got)
}

func TestReadGrown(t *testing.T) {
	got, err := Read(t.Context(), strings.NewReader("grown"), "f", 2, 5)
	require.NoError(t, err)
	require.Equal(t, "grown", string(got))
	_, err = Read(t.Context(), strings.NewReader("grown!"), "f", 2, 5)
	bad(t, err, "too_large", `"f" has 6 bytes: at most 5`)
	_, err = Read(t.Context(), io.MultiReader(strings.NewReader("a"), broken{}), "f", 2, 5)
	require.Equal(t, fault.Transient, fault.Of(err).Class)
	got, err = Read(t.Context(), strings.NewReader("a"), "f", 2, 5)
	require.NoError(t, err)
	require.Equal(t, "a", string(got))
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("the disk is gone") }

func TestUnreadableDirectoryIsHandedOn(t *testing.T) {
	dir := yard(t, "docs/sub/a.txt", "docs/z.txt")
	sub := filepath.Join(dir, "docs", "sub")
	require.NoError(t, os.Chmod(sub, 0))
	t.Cleanup(func() { require.NoError(t, os.Chmod(sub, 0o755)) })
	tr := tree(t, false, dir)
	got, err := list(t, tr, "docs")
	require.NoError(t, err)
	if os.Geteuid() == 0 { // root reads everything
		require.Equal(t, []string{"docs/sub/a.txt", "docs/z.txt"}, got)
		return
	}
	require.Equal(t, []string{"docs/sub", "docs/z.txt"}, got)
	_, _, err = tr.Open("docs/sub")
	bad(t, err, "unreadable", `"docs/sub" cannot be read: permission denied`)
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"*.txt", "a.txt", true}, {"*.txt", "a/b.txt", false}, {"*", ".a", false}, {".*", ".a", true}, {"a?c", "abc", true}, {"a?c", "aéc", true},
		{"[a-c]x", "bx", true}, {"[!a-c]x", "bx", false}, {"[^a-c]x", "dx", true}, {"**", "a/b/c", true}, {"**", "a/.b/c", false},
		{"**/c", "c", true}, {"a/**/c", "a/c", true}, {"a/**/c", "a/b/b/c", true}, {"a/**/c", "a/b", false}, {"**/**/**/x", "y/x", true},
		{"**/a/**/b/*", "x/a/a/b/b/c", true}, {"**/a/**/b/*", "x/a/a/c", false}, {`\*`, "*", true}, {`\*`, "a", false},
	} {
		got, err := Match(c.pattern, c.name)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%s %s", c.pattern, c.name)
	}
}

func FuzzMatch(f *testing.F) {
	f.Add("**/a*[!b]/**", "x/ab/c")
	f.Add("[", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		got, err := Match(pattern, name)
		if err != nil && fault.Of(err).Class != fault.Document {
			t.Fatalf("%v", err)
		}
		if wide, werr := Match("**/"+pattern, name); err == nil && werr == nil && got && !wide {
			t.Fatalf("%q matches %q, but with **/ before it does not", pattern, name)
		}
	})
}
