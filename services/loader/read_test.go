package loader

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
)

func readOf(t *testing.T, cfg Config, name, data, format string) ([]Document, error) {
	t.Helper()
	var out []Document
	err := Read(t.Context(), cfg, name, []byte(data), format, func(d Document) error {
		out = append(out, d)
		return nil
	})
	return out, err
}

func TestRead(t *testing.T) {
	docs, err := readOf(t, Config{}, "notes/a.md", "---\ntitle: Ada\ndate: 2020-01-02\n---\nText\u00a0here.\r\n", "")
	require.NoError(t, err)
	require.Len(t, docs, 1)
	require.Equal(t, "notes/a.md", docs[0].Meta.Key)
	require.Equal(t, "Ada", docs[0].Meta.Title)
	require.Equal(t, "2020-01-02", docs[0].Meta.PublishedAt)
	require.Equal(t, "markdown", docs[0].Markup)
	require.Equal(t, "Text here.\n", docs[0].Text)

	docs, err = readOf(t, Config{}, "x", `{"id":"a","text":"One."}`+"\n"+`{"id":"b","text":"Two."}`, "jsonl")
	require.NoError(t, err)
	require.Len(t, docs, 2)
	require.Equal(t, "x#b", docs[1].Meta.Key)
	require.Equal(t, "Two.", docs[1].Text)
}

// A source at fault gives no document at all, with the code that a job would end with.
func TestReadRefuses(t *testing.T) {
	for want, c := range map[string]struct{ name, data string }{
		"bad_record":            {"a.jsonl", "{\"text\":\"One.\"}\n{no"},
		events.CodeDuplicateKey: {"a.jsonl", "{\"id\":\"a\",\"text\":\"One.\"}\n{\"id\":\"a\",\"text\":\"Two.\"}"},
		"too_large":             {"a.txt", string(make([]byte, 2000))},
		"unsupported_format":    {"a.zip", "x"},
		"bad_pdf":               {"a.pdf", "%PDF-no"},
	} {
		docs, err := readOf(t, Config{MaxDocument: 1024}, c.name, c.data, "")
		var bad *fault.Error
		require.ErrorAs(t, err, &bad, want)
		require.Equal(t, want, bad.Code)
		require.Empty(t, docs)
	}
	stop := errors.New("stop")
	require.ErrorIs(t, Read(t.Context(), Config{}, "a", []byte("x"), "text", func(Document) error { return stop }), stop)
	require.Error(t, Read(t.Context(), Config{MaxDocument: 1}, "a", []byte("x"), "text", nil))
}
