package parse

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersOfMetadata(t *testing.T) {
	for raw, want := range map[string]any{
		"0": int64(0), "-7": int64(-7), "9007199254740992": int64(9007199254740992), "-9007199254740992": int64(-9007199254740992),
		"9007199254740993": "9007199254740993", "-9007199254740993": "-9007199254740993", "9223372036854775807": "9223372036854775807",
		"12345678901234567890123": "12345678901234567890123", "1.5": 1.5, "1e3": 1000.0, "1e400": "1e400",
		`["x",9007199254740993,{"a":9007199254740993,"b":1}]`: []any{"x", "9007199254740993", map[string]any{"a": "9007199254740993", "b": int64(1)}},
	} {
		for _, text := range []string{`[{"text":"x","metadata":{"k":` + raw + `}}]`, `[{"text":"x","k":` + raw + `}]`} {
			got, err := all(t, JSON, text)
			require.NoError(t, err)
			require.Equal(t, map[string]any{"k": want}, got[0].Metadata, text)
		}
		// The next stage decodes metadata with float64, and holds the same.
		over := map[string]any{}
		b, err := json.Marshal(map[string]any{"k": want})
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(b, &over))
		again, err := json.Marshal(over)
		require.NoError(t, err)
		require.Equal(t, string(b), string(again))
	}
	got, err := all(t, JSONL, `{"text":"x","id":9007199254740993,"metadata":{"k":9007199254740993}}`)
	require.NoError(t, err)
	require.Equal(t, []Record{{ID: "9007199254740993", Text: "x", Metadata: map[string]any{"k": "9007199254740993"}}}, got)
	got, err = all(t, JSON, `[{"account":9007199254740993,"all":[12345678901234567890]}]`)
	require.NoError(t, err)
	require.Equal(t, "account: 9007199254740993\nall: 12345678901234567890", got[0].Text)
	got, err = all(t, Markdown, "---\nisbn: 9781234567890123456\nids: [1, 9007199254740993, 99999999999999999999]\n---\nx")
	require.NoError(t, err)
	require.Equal(t, map[string]any{"isbn": "9781234567890123456", "ids": []any{int64(1), "9007199254740993", "99999999999999999999"}}, got[0].Metadata)
}

func TestEscapesOfJSON(t *testing.T) {
	for _, c := range []struct{ record, message string }{
		{`{"text":"Ada \u0000 x"}`, `a NUL stands at byte 13, as \u0000: this is no text`},
		{`{"text":"x","title":"\u0000"}`, `a NUL stands at byte 21, as \u0000: this is no text`},
		{`{"text":"x","id":"a\u0000"}`, `a NUL stands at byte 19, as \u0000: this is no text`},
		{`{"text":"x","metadata":{"k":["\u0000"]}}`, `a NUL stands at byte 30, as \u0000: this is no text`},
		{`{"text":"x","k\u0000":1}`, `a NUL stands at byte 14, as \u0000: this is no text`},
		{`{"text":"x","scope":"\u0000"}`, `a NUL stands at byte 21, as \u0000: this is no text`},
		{`{"name":"\\\u0000"}`, `a NUL stands at byte 11, as \u0000: this is no text`},
		{`{"text":"Ada \ud800"}`, `half a character stands at byte 13, as \ud800: its other half is missing`},
		{`{"text":"Ada \uDFFF x"}`, `half a character stands at byte 13, as \uDFFF: its other half is missing`},
		{`{"text":"\ud800\ud83d\ude00"}`, `half a character stands at byte 9, as \ud800: its other half is missing`},
		{`{"text":"\ude00\ud83d"}`, `half a character stands at byte 9, as \ude00: its other half is missing`},
		{`{"text":"\ud83d\\ude00"}`, `half a character stands at byte 9, as \ud83d: its other half is missing`},
		{`{"name":{"a":["\ud83dx"]}}`, `half a character stands at byte 15, as \ud83d: its other half is missing`},
		{`{"text":"x","title":"\ud800"}`, `half a character stands at byte 21, as \ud800: its other half is missing`},
		{`{"text":"x","metadata":{"\ud800":1}}`, `half a character stands at byte 25, as \ud800: its other half is missing`},
	} {
		_, err := all(t, JSONL, "{}\n\n"+c.record)
		bad(t, err, "bad_encoding", "record 2 (line 3): "+c.message)
		_, err = all(t, JSON, "[{},\n"+c.record+"]")
		bad(t, err, "bad_encoding", "record 2 (line 2): "+c.message)
		_, err = all(t, JSON, c.record)
		bad(t, err, "bad_encoding", "the document: "+c.message)
	}
	got, err := all(t, JSONL, `{"text":"\\u0000 \\ud800 \ud83d\ude00 \ufffd \u0001"}`)
	require.NoError(t, err)
	require.Equal(t, "\\u0000 \\ud800 \U0001F600 \uFFFD \x01", got[0].Text)
}
