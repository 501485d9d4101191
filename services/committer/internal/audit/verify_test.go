package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/store"
)

type row struct{ key, value []byte }

// written is a trail of a few records that have every field, and its rows.
func written(t *testing.T) (Trail, []row) {
	t.Helper()
	st, err := store.Open(t.Context(), store.Options{Dir: "data", FS: vfs.NewMem(), Now: time.Now, FreeSpace: func(string) (uint64, error) { return 1 << 40, nil }})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })
	st.Graph("g", true)
	tr := Trail{Store: st, Graph: "g"}
	for i, kind := range []string{"entity", "match", "job"} {
		r := events.Audit{
			Graph: "g", At: fmt.Sprintf("2026-01-0%dT00:00:00Z", i+1), Operation: fmt.Sprint("op", i), RequestID: fmt.Sprint("op", i), Kind: kind, Key: kind + "|Ada <b>|x\x00y",
			ItemID: "6a0f", Decision: "edit", Value: json.RawMessage(`"1901"`), Plan: "93c1", Undoes: "77", Actor: "eva", Reason: "because — “it” is", Before: "pending", After: "approved",
			Item: json.RawMessage(`{"label":"A","n":[1,2.5]}`), Original: json.RawMessage(`{"a":1}`), Edited: json.RawMessage(`{"a":2}`), Diff: []events.AuditDiff{{Field: "a", Before: 1, After: []int{2}}},
			Policy: &events.AuditPolicy{Fingerprint: "p", Rules: []events.AuditRule{{List: "auto_accept"}}, Extractions: []string{"e"}}, Seq: uint64(i + 3),
		}
		r.Saw(events.AuditEvidence{Document: "a", Version: 1, Start: 2, End: 5, Quote: "Ada"})
		ops, err := tr.Append([]events.Audit{r})
		require.NoError(t, err)
		require.NoError(t, st.Write(t.Context(), ops, false))
	}
	var rows []row
	require.NoError(t, st.Scan("g", space, nil, nil, 0, func(k, v []byte) error {
		rows = append(rows, row{bytes.Clone(k), bytes.Clone(v)})
		return nil
	}))
	require.Len(t, rows, 3*4+1)
	return tr, rows
}

func (t Trail) problems(tb testing.TB) []api.Problem {
	tb.Helper()
	var out []api.Problem
	_, err := t.Verify(tb.Context(), func(p api.Problem) { out = append(out, p) })
	require.NoError(tb, err)
	return out
}

// of is the number of the record that a row is of, or leads to.
func of(t *testing.T, r row) uint64 {
	if r.key[0] == 'a' {
		return uint64(r.key[8])
	}
	var no uint64
	if r.key[0] == 'h' {
		return 3
	}
	require.NoError(t, json.Unmarshal(r.value, &no))
	return no
}

func named(problems []api.Problem, no uint64) bool {
	return slices.ContainsFunc(problems, func(p api.Problem) bool { return p.Key == fmt.Sprintf("audit record %d", no) })
}

// Every byte of every row, whichever of its bits flips: verify names the record.
func TestVerifyNamesEveryChangedByte(t *testing.T) {
	tr, rows := written(t)
	require.Empty(t, tr.problems(t))
	put := func(k, v []byte) { require.NoError(t, tr.Store.Put(t.Context(), "g", space, k, v)) }
	flips := 0
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, r := range rows {
		no := of(t, r)
		for i := range r.value {
			bits := []byte{1 << rng.IntN(8)}
			if no == 1 || r.key[0] == 'h' {
				bits = append(bits, 0x20) // of a letter its case, which names of fields are read without
			}
			for _, bit := range bits {
				v := bytes.Clone(r.value)
				v[i] ^= bit
				put(r.key, v)
				require.True(t, named(tr.problems(t), no), "seed %d: record %d: byte %d of %q became %q", seed, no, i, r.value, v)
				flips++
			}
		}
		put(r.key, r.value)
		for range 10 { // the key
			k := bytes.Clone(r.key)
			k[rng.IntN(len(k))] ^= 1 << rng.IntN(8)
			if slices.ContainsFunc(rows, func(x row) bool { return bytes.Equal(x.key, k) }) {
				continue
			}
			require.NoError(t, tr.Store.Delete(t.Context(), "g", space, r.key))
			put(k, r.value)
			require.True(t, named(tr.problems(t), no), "seed %d: record %d: key %q became %q", seed, no, r.key, k)
			require.NoError(t, tr.Store.Delete(t.Context(), "g", space, k))
			require.True(t, named(tr.problems(t), no), "record %d: row %q went", no, r.key)
			put(r.key, r.value)
			put(k, r.value)
			require.NotEmpty(t, tr.problems(t), "a row besides: %q", k)
			require.NoError(t, tr.Store.Delete(t.Context(), "g", space, k))
		}
		v := append(bytes.Clone(r.value), ' ')
		put(r.key, v)
		require.True(t, named(tr.problems(t), no), "a space behind")
		put(r.key, r.value)
	}
	require.Greater(t, flips, 2_000)
	require.Empty(t, tr.problems(t))
}

// A record that somebody writes anew, with its right id, is named by the one that follows; the last one by the head.
func TestVerifyNamesWhatWasWrittenAnew(t *testing.T) {
	tr, rows := written(t)
	for no := uint64(1); no <= 3; no++ {
		i := slices.IndexFunc(rows, func(r row) bool { return bytes.Equal(r.key, numbered('a', no)) })
		var r events.Audit
		require.NoError(t, json.Unmarshal(rows[i].value, &r))
		was := r.Record
		r.Actor = "mallory"
		r, err := r.Sealed(no, r.Prev)
		require.NoError(t, err)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		put := func(k, v []byte) { require.NoError(t, tr.Store.Put(t.Context(), "g", space, k, v)) }
		put(rows[i].key, b)
		put(recordKey(r.Record), fmt.Append(nil, no))
		require.NoError(t, tr.Store.Delete(t.Context(), "g", space, recordKey(was)))
		require.True(t, named(tr.problems(t), min(no+1, 3)), "record %d", no)
		require.NoError(t, tr.Store.Delete(t.Context(), "g", space, recordKey(r.Record)))
		put(recordKey(was), fmt.Append(nil, no))
		put(rows[i].key, rows[i].value)
	}
	require.Empty(t, tr.problems(t))
}

// The records in order, page by page.
func TestAfter(t *testing.T) {
	tr, _ := written(t)
	var got []uint64
	pages := 0
	for after := uint64(0); ; pages++ {
		page, next, err := tr.After(t.Context(), after, 2)
		require.NoError(t, err)
		for _, r := range page {
			got = append(got, r.No)
		}
		if after = next; next == 0 {
			break
		}
	}
	require.Equal(t, []uint64{1, 2, 3}, got)
	require.Equal(t, 1, pages)
	page, next, err := tr.After(t.Context(), 3, 2)
	require.NoError(t, err)
	require.Equal(t, []any{0, uint64(0)}, []any{len(page), next})
}

// A record holds so much evidence and no more.
func TestSawIsBounded(t *testing.T) {
	var r events.Audit
	for range 30 {
		r.Saw(events.AuditEvidence{Quote: "Ada"})
	}
	require.Len(t, r.Evidence, events.MaxAuditEvidence)
	r.Evidence = nil
	long := strings.Repeat("é", 400)
	for range 30 {
		r.Saw(events.AuditEvidence{Quote: long})
	}
	require.Equal(t, []int{8, 500}, []int{len(r.Evidence), len(r.Evidence[0].Quote)})
}

// What was published is in the store, or is named: the record itself, or the first of several that are missing.
func TestVerifyPublished(t *testing.T) {
	tr, _ := written(t)
	third, ok, err := tr.Record(headOf(t, tr))
	require.NoError(t, err)
	require.True(t, ok)
	for name, c := range map[string]struct {
		no     uint64
		record string
		want   []api.Problem
	}{
		"the last one":       {3, third.Record, nil},
		"an earlier one":     {2, third.Prev, nil},
		"another in a place": {3, "77aa", []api.Problem{{Kind: "audit", Key: "audit record 3", Message: "it was published as 77aa, which is not in the store"}}},
		"the next one":       {4, "77aa", []api.Problem{{Kind: "audit", Key: "audit record 4", Message: "it was published as 77aa, which is not in the store"}}},
		"several":            {6, "77aa", []api.Problem{{Kind: "audit", Key: "audit record 4", Message: "it and those up to 6 were published, the last as 77aa, and are not in the store"}}},
	} {
		var got []api.Problem
		checked, err := tr.VerifyPublished(t.Context(), func(context.Context, string) (*events.Audit, error) {
			return &events.Audit{No: c.no, Record: c.record}, nil
		}, func(p api.Problem) { got = append(got, p) })
		require.NoError(t, err, name)
		require.Equal(t, 3, checked, name)
		require.Equal(t, c.want, got, name)
	}
	none := func(context.Context, string) (*events.Audit, error) { return nil, nil }
	_, err = tr.VerifyPublished(t.Context(), none, func(p api.Problem) { t.Error(p) })
	require.NoError(t, err)
	away := errors.New("away")
	_, err = tr.VerifyPublished(t.Context(), func(context.Context, string) (*events.Audit, error) { return nil, away }, func(p api.Problem) { t.Error(p) })
	require.ErrorIs(t, err, away)
}

func headOf(t *testing.T, tr Trail) string {
	_, id, err := tr.Head()
	require.NoError(t, err)
	return id
}
