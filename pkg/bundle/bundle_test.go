package bundle

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func TestRoundTrip(t *testing.T) {
	meta := events.InputDocument{
		Key: "own key", Title: "T", Format: "markdown", PublishedAt: "2024", ContentDate: "2024-05", SourceUpdatedAt: "2024-05-31",
		Metadata: map[string]any{"a": "b\n=", "n": 1.5}, Scope: graph.Scope{"x", "y"},
	}
	write := func() []byte {
		var b bytes.Buffer
		w := NewWriter(&b)
		require.NoError(t, w.Add("docs/./a.md", meta, []byte("# A")))
		require.NoError(t, w.Add("/abs/b.txt", events.InputDocument{}, nil))
		require.NoError(t, w.Add("../c é.txt", events.InputDocument{Scope: graph.Scope{"one"}}, []byte{0xff}))
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	raw := write()
	require.Equal(t, raw, write(), "the same calls, the same bytes")

	r := NewReader(bytes.NewReader(raw))
	for _, want := range []Entry{
		{Name: "docs/a.md", Meta: meta, Data: []byte("# A")},
		{Name: "/abs/b.txt", Data: []byte{}},
		{Name: "../c é.txt", Meta: events.InputDocument{Scope: graph.Scope{"one"}}, Data: []byte{0xff}},
	} {
		got, err := r.Next()
		require.NoError(t, err)
		require.Equal(t, want, *got)
	}
	_, err := r.Next()
	require.Equal(t, io.EOF, err)
}

func entryError(t *testing.T, err error, code, message string) {
	t.Helper()
	var e *EntryError
	require.True(t, errors.As(err, &e), "%v", err)
	require.Equal(t, code, e.Code)
	require.EqualError(t, err, message)
}

func TestAddRefuses(t *testing.T) {
	w := NewWriter(io.Discard)
	entryError(t, w.Add("big", events.InputDocument{}, make([]byte, MaxEntry+1)), "too_large", "big has 33554433 bytes: at most 33554432")
	entryError(t, w.Add("", events.InputDocument{}, nil), "bad_name", `the name "." names no file`)
	entryError(t, w.Add("a\xff", events.InputDocument{}, nil), "bad_name", `the name "a�" is not UTF-8`)
	entryError(t, w.Add("a\nb", events.InputDocument{}, nil), "bad_name", `the name "a\nb" has control or broken characters`)
	entryError(t, w.Add(strings.Repeat("x", 1025), events.InputDocument{}, nil), "bad_name", `the name "`+strings.Repeat("x", 200)+`…" has 1025 bytes: at most 1024`)
	entryError(t, w.Add("a", events.InputDocument{PublishedAt: "soon"}, nil), "bad_record", `a: published_at is "soon": it must be a date (2024, 2024-05, 2024-05-31) or an RFC 3339 time`)
	require.NoError(t, w.Add("fine", events.InputDocument{}, nil))
}

func TestReadsOnAfterBadEntries(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	add := func(h tar.Header, data []byte) {
		h.Size = int64(len(data))
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(data)
		require.NoError(t, err)
	}
	add(tar.Header{Typeflag: tar.TypeDir, Name: "dir/"}, nil)
	add(tar.Header{Typeflag: tar.TypeSymlink, Name: "link", Linkname: "/etc/passwd"}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "big"}, make([]byte, MaxEntry+1))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "meta", PAXRecords: map[string]string{"FACTMILL.metadata": "[1]"}}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "scope", PAXRecords: map[string]string{"FACTMILL.scope": "1"}}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "other", PAXRecords: map[string]string{"FACTMILL.new": "x", "VENDOR.x": "y"}}, []byte("ok"))
	require.NoError(t, w.Close())

	r := NewReader(&b)
	_, err := r.Next()
	entryError(t, err, "not_a_file", "link is no regular file")
	_, err = r.Next()
	entryError(t, err, "too_large", "big has 33554433 bytes: at most 33554432")
	_, err = r.Next()
	entryError(t, err, "bad_record", "meta: metadata is not a JSON object: json: cannot unmarshal array into Go value of type map[string]interface {}")
	_, err = r.Next()
	entryError(t, err, "bad_record", "scope: scope is neither a JSON string nor a list of strings")
	got, err := r.Next()
	require.NoError(t, err)
	require.Equal(t, Entry{Name: "other", Data: []byte("ok")}, *got)
	_, err = r.Next()
	require.Equal(t, io.EOF, err)
}

func TestBroken(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	require.NoError(t, w.Add("a", events.InputDocument{}, make([]byte, 4000)))
	require.NoError(t, w.Close())
	_, err := NewReader(bytes.NewReader(b.Bytes()[:2000])).Next()
	require.ErrorIs(t, err, ErrBroken)
	_, err = NewReader(strings.NewReader(strings.Repeat("no tar ", 200))).Next()
	require.ErrorIs(t, err, ErrBroken)
	_, err = NewReader(strings.NewReader("")).Next()
	require.Equal(t, io.EOF, err)
	_, err = NewReader(failing{}).Next()
	require.EqualError(t, err, "read the bundle: away")
	require.NotErrorIs(t, err, ErrBroken)
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("away") }

func FuzzReader(f *testing.F) {
	var b bytes.Buffer
	w := NewWriter(&b)
	_ = w.Add("a/b.txt", events.InputDocument{Title: "t", Metadata: map[string]any{"a": 1}}, []byte("text"))
	_ = w.Close()
	f.Add(b.Bytes())
	f.Add([]byte("no tar"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := NewReader(bytes.NewReader(raw))
		for range 1000 {
			e, err := r.Next()
			var bad *EntryError
			if errors.As(err, &bad) {
				continue
			}
			if err != nil {
				return
			}
			if e.Name == "" || len(e.Data) > MaxEntry || e.Meta.Check() != nil {
				t.Fatalf("%+v", e)
			}
		}
	})
}
