package events_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

func TestParseIngest(t *testing.T) {
	in, err := events.ParseIngest([]byte(`{"text":"Ada Lovelace worked with Charles Babbage.","key":"ada","scope":["b","a","b"],"candidates":false}`), nil)
	require.NoError(t, err)
	require.Equal(t, "ada", in.Key)
	require.Equal(t, events.OpAdd, in.Op)
	require.Equal(t, events.PolicyRaise, in.ErrorPolicy)
	require.Equal(t, events.AtomicJob, in.Atomic)
	require.Equal(t, graph.Scope{"a", "b"}, in.Scope)
	require.False(t, *in.Candidates)

	in, err = events.ParseIngest([]byte(`{"text":""}`), nil)
	require.NoError(t, err, "an empty text is a document")
	require.True(t, in.HasText())

	h := map[string]string{"Factmill-Key": "k", "Factmill-Title": "T", "Factmill-Scope": "x, y"}
	in, err = events.ParseIngest([]byte("plain text"), func(s string) string { return h[s] })
	require.NoError(t, err)
	require.Equal(t, "plain text", in.Text)
	require.Equal(t, "k", in.Key)
	require.Equal(t, "T", in.Title)
	require.Equal(t, graph.Scope{"x", "y"}, in.Scope)
}

func TestIngestIsRefused(t *testing.T) {
	long := strings.Repeat("k", 1025)
	for body, want := range map[string]string{
		`{"text":`:                           "bad_json",
		`{"text":"a"} x`:                     "bad_json",
		`{"text":"a","keey":"b"}`:            "unknown_field",
		`{"documents":[{"text":"a","x":1}]}`: "unknown_field",
		`{}`:                                 "no_input",
		`{"documents":[]}`:                   "no_input",
		`{"documents":[{"key":"a"}]}`:        "no_input",
		`{"text":"a","sources":["b"]}`:       "many_inputs",
		`{"text":"a","op":"drop"}`:           "bad_value",
		`{"text":"a","error_policy":"x"}`:    "bad_value",
		`{"text":"a","atomic":"x"}`:          "bad_value",
		`{"text":"a","deadline":"soon"}`:     "bad_value",
		`{"text":"a","published_at":"yes"}`:  "bad_value",
		`{"text":"a","job":"j7"}`:            "bad_name",
		`{"text":"a","job":"a.b"}`:           "bad_name",
		`{"text":"a","key":"` + long + `"}`:  "bad_name",
		`{"text":"a","key":"a\u0000b"}`:      "bad_name",
		`{"op":"update","text":"a"}`:         "no_key",
		`{"op":"update","documents":[{"key":"a","text":"x"},{"key":"b","text":"y"}]}`: "update_one",
		`{"op":"delete","text":"a"}`:                                         "many_inputs",
		`{"op":"delete"}`:                                                    "no_input",
		`{"op":"delete","documents":[{"title":"a"}]}`:                        "no_key",
		`{"documents":[{"key":"a","text":"x"},{"key":"a","text":"y"}]}`:      "duplicate_key",
		`{"key":"a","documents":[{"key":"b","text":"x"}]}`:                   "bad_value",
		`{"sources":[""]}`:                                                   "bad_value",
		`{"text":"a","metadata":{"x":"` + strings.Repeat("y", 70000) + `"}}`: "bad_value",
	} {
		_, err := events.ParseIngest([]byte(body), nil)
		var r *events.Refusal
		require.True(t, errors.As(err, &r), "%.80s: %v", body, err)
		require.Equal(t, want, r.Code, "%.80s: %s", body, r.Message)
	}
	_, err := events.ParseIngest([]byte(`{"text":"a","keey":"b"}`), nil)
	require.EqualError(t, err, `unknown field "keey" in the document event`)
}

func FuzzParseIngest(f *testing.F) {
	f.Add([]byte(`{"text":"a","key":"b","metadata":{"x":[1]},"documents":null}`))
	f.Add([]byte(`{"op":"delete","documents":[{"key":"a"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := events.ParseIngest(body, nil)
		var r *events.Refusal
		if err != nil && !errors.As(err, &r) {
			t.Fatalf("%v is no refusal", err)
		}
		if err == nil && in.Op == "" {
			t.Fatal("an accepted event has no operation")
		}
	})
}
