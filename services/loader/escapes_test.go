package loader

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// TestNoNULByEscape: what escapes bring in is refused like the byte, wherever it stands.
func TestNoNULByEscape(t *testing.T) {
	b := newBench(t, Config{})
	for _, c := range []struct {
		src     events.Source
		message string
	}{
		{uploadedFile("a.json", `{"text":"Ada \u0000 x"}`, nil), `the document: a NUL stands at byte 13, as \u0000: this is no text`},
		{uploadedFile("a.jsonl", `{"text":"x"}`+"\n"+`{"text":"x","id":"\u0000"}`, nil), `record 2 (line 2): a NUL stands at byte 18, as \u0000: this is no text`},
		{uploadedFile("a.md", "---\ntitle: \"a\\0b\"\n---\nx", nil), "a.md: its title holds a NUL: this is no text"},
		{uploadedFile("a.md", "---\ntags: [\"a\\x00b\"]\n---\nx", nil), "a.md: its metadata holds a NUL: this is no text"},
		{inline(events.InputDocument{Key: "k", Text: "x", Title: "\x00"}), "k: its title holds a NUL: this is no text"},
		{inline(events.InputDocument{Key: "k", Text: "x", Metadata: map[string]any{"a": map[string]any{"\x00": 1}}}), "k: its metadata holds a NUL: this is no text"},
		{inline(events.InputDocument{Key: "k", Text: "x", Scope: []string{"a", "\x00"}}), "k: its scope holds a NUL: this is no text"},
		{uploadedFile("a.csv", "text\nx\n", &events.InputDocument{Title: "\x00"}), "record 1 (line 2), a.csv#0: its title holds a NUL: this is no text"},
	} {
		out, err := b.fetched(testJob(), c.src)
		require.Empty(t, out)
		isFault(t, err, "bad_encoding", c.message)
	}
}

// TestNoHalfCharacterInAnEvent: a decoder would make U+FFFD of it before anybody could see.
func TestNoHalfCharacterInAnEvent(t *testing.T) {
	b := newBench(t, Config{})
	for _, body := range []string{`{"text":"Ada \ud800"}`, ` {"documents":[{"text":"x","title":"\udfff"}]}`, `{"text":"x","metadata":{"\ud83dx":1}}`} {
		_, err := b.listed(body, nil)
		require.NoError(t, err)
		refused := b.committer.opened[len(b.committer.opened)-1].Refused
		require.NotNil(t, refused, body)
		require.Equal(t, "bad_encoding", refused.Code)
		require.Contains(t, refused.Message, "the document event: half a character stands at byte ")
	}
	for _, body := range []string{`{"text":"\ud83d\ude00 \\ud800 \ufffd"}`, `a text with \ud800`} {
		_, err := b.listed(body, nil)
		require.NoError(t, err)
		require.Nil(t, b.committer.opened[len(b.committer.opened)-1].Refused, body)
	}
}

// TestIntegersStayWhatTheyAre: over the wire, too, and its hash is that of what the next stage holds.
func TestIntegersStayWhatTheyAre(t *testing.T) {
	b := newBench(t, Config{})
	out, err := b.fetched(testJob(), uploadedFile("a.json", `{"text":"x","n":9007199254740992,"metadata":{"m":9007199254740993,"l":[1,12345678901234567890]}}`, nil))
	require.NoError(t, err)
	here := out[0].(*events.Loaded)
	there := overTheWire(t, here).(*events.Loaded)
	require.Equal(t, here.Meta.MetaHash(), there.Meta.MetaHash())
	got, err := fingerprint.Canonical(there.Meta.Metadata)
	require.NoError(t, err)
	require.Equal(t, `{"l":[1,"12345678901234567890"],"m":"9007199254740993","n":9007199254740992}`, string(got))
}

func TestReadTables(t *testing.T) {
	for name, text := range map[string]string{
		"a.csv": "id,text\r1,Ada worked for Acme Ltd.\r2,x\r", "b.csv": "\uFEFFsep=;\r\nid;text\r\n1;Ada worked for Acme Ltd.\r\n2;x\r\n",
		"a.tsv": "id\ttext\r1\tAda worked for Acme Ltd.\r2\tx",
	} {
		docs, err := readOf(t, Config{}, name, text, "")
		require.NoError(t, err)
		require.Len(t, docs, 2)
		require.Equal(t, []string{name + "#1", "Ada worked for Acme Ltd.", name + "#2", "x"}, []string{docs[0].Meta.Key, docs[0].Text, docs[1].Meta.Key, docs[1].Text})
	}
	docs, err := readOf(t, Config{}, "q.tsv", "id\ttext\n1\tAda said \"no\".\n2\t\"say \"\"hi\"\"\"\n", "")
	require.NoError(t, err)
	require.Equal(t, []string{`Ada said "no".`, `say "hi"`}, []string{docs[0].Text, docs[1].Text})
	_, err = readOf(t, Config{}, "a.xml", "<a>Acme</a><b>Bob</b>", "")
	require.Equal(t, "bad_xml", fault.Of(err).Code)
}
