package llm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/testkit"
)

var keys = []string{"list"}

// take wants an object with a list, and counts what it is given.
func take(n *int) func(any) error {
	return func(v any) error {
		*n++
		o, ok := v.(llm.Object)
		if !ok {
			return llm.Bad(llm.CodeInvalid, "a %T", v)
		}
		if o, err := llm.Answering(o); err != nil || o["list"] == nil {
			return errors.Join(err, llm.Bad(llm.CodeInvalid, "no list"))
		}
		return nil
	}
}

func code(err error) string {
	var r *llm.ReplyError
	if errors.As(err, &r) {
		return r.Code
	}
	return ""
}

func TestRead(t *testing.T) {
	for raw, want := range map[string]string{
		`{"list":[]}`:                  "1 ",
		`{"list":[]} and {"list":[1]}`: "2 ",
		`{"other":1} {"list":[]}`:      "2 ",
		`{"list":[1],"list":[2]}`:      "1 ",
		`{"list":1,"list":2}`:          "0 " + llm.CodeInvalid,
		`{"list":[],"a":1,"a":2}`:      "1 ",
		`{"list":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`: "0 " + llm.CodeInvalid,
		`{"other":1}`:                     "1 " + llm.CodeInvalid,
		`<think>{"list":[]}</think> none`: "0 " + llm.CodeProse,
		`<think>{"list":[]}`:              "0 " + llm.CodeEmpty,
		`{"list":[`:                       "0 " + llm.CodeTruncated,
		`{"list":[1 2]}`:                  "0 " + llm.CodeInvalid,
		`{"list":[NaN,],}`:                "1 ",
		`"{\"list\":[]}"`:                 "1 ",
		`the set {a, b}`:                  "0 " + llm.CodeProse,
		`Sorry, no.`:                      "0 " + llm.CodeRefused,
		`{"$schema":"x","list":[]}`:       "1 " + llm.CodeEcho,
		"":                                "0 " + llm.CodeEmpty,
		strings.Repeat(`{"a":1}`, 100):    "64 " + llm.CodeInvalid,
		strings.Repeat("x", 4<<20) + `{"list":[]}`: "0 " + llm.CodeInvalid,
	} {
		n := 0
		err := llm.Read(raw, keys, take(&n))
		require.Equal(t, want, fmt.Sprint(n, " ", code(err)), "%.80s", raw)
	}
}

// FuzzRead: any bytes are values, or a typed error.
func FuzzRead(f *testing.F) {
	f.Add(`<think>x</think>{"list":[{"a":"\u00`)
	f.Add("```json\n{\"list\":[1,],}```")
	f.Fuzz(func(t *testing.T, raw string) {
		n := 0
		if err := llm.Read(raw, keys, take(&n)); err != nil && code(err) == "" {
			t.Fatalf("%q: no code: %v", raw, err)
		}
	})
}

func TestClientTellsWhatIsAbsent(t *testing.T) {
	testkit.NoLeaks(t)
	m := testkit.NewModel(t, testkit.ModelOptions{})
	c, err := llm.NewClient(strings.TrimPrefix(m.URL(), "http://"), time.Second)
	require.NoError(t, err)
	defer c.Close()
	require.Equal(t, m.URL(), c.URL())
	call := llm.Call{Model: "absent:7b", Context: 4096, Room: 10}
	var away *llm.AwayError
	_, err = c.Chat(t.Context(), call)
	require.ErrorAs(t, err, &away)
	require.True(t, away.Missing)
	_, err = c.Digest(t.Context(), "absent:7b", "")
	require.ErrorAs(t, err, &away)
	require.True(t, away.Missing)
	m.Stop()
	ask := llm.Caller{Client: c, Slots: llm.NewSlots(1, nil), Log: testkit.Quiet()}
	_, err = ask.Ask(t.Context(), llm.Question{Call: call}, &llm.Usage{})
	require.Equal(t, llm.CodeAway, fault.Of(err).Code)
	require.ErrorAs(t, err, &away)
	require.False(t, away.Missing)
	for _, address := range []string{"ftp://me:hunter2@x", "http://me:hunter2@x:port", "http://me:hunter2/@x"} {
		_, err = llm.NewClient(address, time.Second)
		require.ErrorContains(t, err, "ollama.url", address)
		require.NotContains(t, err.Error(), "hunter2", address)
	}
	secret, err := llm.NewClient("http://me:hunter2@127.0.0.1:1", time.Second)
	require.NoError(t, err)
	require.NotContains(t, secret.URL(), "hunter2")
}
