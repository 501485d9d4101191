package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
)

var rewrite = flag.Bool("rewrite", false, "write golden files anew; old ones must decode for ever, so look hard at the diff")

func job() events.Job {
	return events.Job{
		Graph: "default", ID: "j42", Attempt: 1, Op: events.OpAdd, SchemaRevision: 3, SchemaFP: "db44256019904a52",
		ChunkerFP: "0123456789abcdef", ExtractionFP: "fedcba9876543210", Settings: settings.Default(),
		ErrorPolicy: events.PolicyRaise, At: graph.Order{Time: 1700000000000000000, Seq: 42},
	}
}

func ref() events.DocRef {
	return events.DocRef{Key: "a", Token: "zksr2jvkxa3cfmjhuvp5wvja", Source: "zksr2jvkxa3cfmjhuvp5wvja", Sole: true, ContentHash: "c0ffee"}
}

// samples is one event of each kind, with its subject and message id.
func samples() map[string]struct {
	ev          events.Event
	subject, id string
} {
	r := ref()
	half := 0.5
	text := "Ada Lovelace worked for Acme Ltd."
	chunks := []graph.Chunk{{Start: 0, End: len(text), Content: "text", Tokens: 7, Heading: []string{"Lives"}}}
	type s = struct {
		ev          events.Event
		subject, id string
	}
	cand := graph.Candidate{Key: "entity|spacecraft|apollo 11", Kind: "entity", Label: "Spacecraft", Text: "Apollo 11", Confidence: 0.44,
		Reasons: []string{"undeclared_label"}, Count: 3, Chunk: 0, Start: 4, End: 13, Extractor: "rules", Rule: "head-noun"}
	return map[string]s{
		"found": {&events.Found{Job: job(), Source: events.Source{Token: r.Token, Name: "docs/a.md", Path: "/data/docs/a.md"}},
			"factmill.default.doc.found.j42." + r.Token, "default:doc.found:j42:1:" + r.Token},
		"loaded": {&events.Loaded{Job: job(), Doc: r, Meta: graph.Meta{Key: "a", ID: "d", Title: "A", Scope: graph.Scope{"public"}}, Decision: graph.NewVersion, Text: text, Markup: "plain"},
			"factmill.default.doc.loaded.j42." + r.Token, "default:doc.loaded:j42:1:" + r.Token + ":" + r.Source},
		"chunked": {&events.Chunked{Job: job(), Doc: r, Title: "A", Text: text, Chunks: chunks},
			"factmill.default.doc.chunked.j42." + r.Token, "default:doc.chunked:j42:1:" + r.Token + ":" + r.Source},
		"staged": {&events.Staged{Job: job(), Doc: r, Meta: graph.Meta{Key: "a", ID: "d"}, Decision: graph.NewVersion, Base: 7, Text: text, Chunks: chunks, Sections: 1},
			"factmill.default.doc.staged.j42." + r.Token, "default:doc.staged:j42:1:" + r.Token + ":" + r.Source},
		"extracted": {&events.Extracted{Job: job(), Doc: r, DocID: "d", Extraction: graph.Extraction{Chunks: []graph.ChunkItems{{
			Entities:  []graph.EntityItem{{Type: "Person", Name: "Ada Lovelace", End: 12, Confidence: 0.95, Extractor: "rules", Rule: "given-name"}},
			Relations: []graph.RelationItem{{Type: "WORKS_FOR", Source: 0, Target: 1, End: 33, Confidence: 0.9, Extractor: "rules"}},
		}}}, Stats: events.ExtractionStats{Processed: 1, Entities: 1, Relations: 1}},
			"factmill.default.doc.extracted.j42." + r.Token, "default:doc.extracted:j42:1:" + r.Token + ":" + r.Source},
		"resolved": {&events.Resolved{Job: job(), Doc: r, Assertions: graph.Assertions{
			Entities:   []graph.EntityRef{{ID: "e1", Label: "Person", Key: "ada lovelace"}},
			Chunks:     []graph.ChunkAssertions{{Mentions: []graph.Mention{{Name: "Ada Lovelace", End: 12, Confidence: 0.95, Extractor: "rules"}}}},
			Candidates: []graph.Candidate{cand},
		}, Resolution: events.ResolutionStats{Exact: 1}},
			"factmill.default.doc.resolved.j42." + r.Token, "default:doc.resolved:j42:1:" + r.Token + ":" + r.Source},
		"ended_document": {&events.Ended{Job: job(), Doc: &r, Source: r.Source, Outcome: events.OutcomeUnchanged, Base: 7},
			"factmill.default.doc.ended.j42." + r.Token, "default:doc.ended:j42:1:" + r.Token + ":" + r.Source + ":dunchanged"},
		"ended_source": {&events.Ended{Job: job(), Source: "src", Name: "rows.csv", Outcome: events.OutcomeListed, Documents: 2, Digest: "00ff"},
			"factmill.default.doc.ended.j42.src", "default:doc.ended:j42:1:src:listed"},
		"sealed": {&events.Sealed{Job: job(), Sources: []string{"src"}},
			"factmill.default.job.sealed.j42", "default:job.sealed:j42:1:"},
		"committed": {&events.JobState{Graph: "default", Job: "j42", Attempt: 1, State: "committed", Seq: 8, Status: json.RawMessage(`{"job":"j42"}`)},
			"factmill.default.job.committed.j42", "default:job.committed:j42:1"},
		"candidate": {&events.CandidateEvent{Graph: "default", Verb: "proposed", Kind: "entity", Seq: 8, No: 3, Job: "j42", Items: []events.CandidateItem{{
			ID: "c1", Document: "a", DocumentID: "d", State: "pending", Quote: "Apollo 11", ChunkID: "ch", Candidate: cand}}},
			"factmill.default.candidate.proposed.entity", "default:candidate:3"},
		"change": {&events.Change{Graph: "default", Seq: 8, Part: 1, Parts: 1, Job: "j42", Documents: []string{"a"}, Upserted: []string{"e1"}},
			"factmill.default.change.8", "default:change:8:1"},
		"audit": {&events.Audit{Record: "a1", Graph: "default", No: 2, Prev: "a0", At: "2024-05-01T12:00:00Z", Operation: "op-7", RequestID: "op-7", Kind: "match",
			Key: "match|e1|e2", ItemID: "m1", Decision: events.DecisionSame, Actor: "eva", Reason: "one firm", Before: "pending", After: "approved",
			Item: json.RawMessage(`{"method":"acronym"}`), Seq: 8},
			"factmill.default.audit", "default:audit:a1"},
		"audit_policy": {&events.Audit{Record: "a2", Graph: "default", No: 3, Prev: "a1", At: "2024-05-01T12:00:00Z", Operation: "policy-1", RequestID: "policy-1", Kind: "entity",
			Key: "entity|mission|apollo 11", ItemID: "c1", Decision: events.DecisionReject, Actor: "policy", Reason: "auto_reject[0] of policy 3 (5f0c)", Before: "pending", After: "rejected",
			Policy: &events.AuditPolicy{Version: "3", Fingerprint: "5f0c", Rules: []events.AuditRule{{List: "auto_reject", Condition: schema.Condition{Kind: "entity", Label: "Mission", MaxConfidence: &half}}},
				Schema: "s", SchemaVersion: "2", SchemaFingerprint: "00aa", Extractions: []string{"ee01"}}, Seq: 9},
			"factmill.default.audit", "default:audit:a2"},
		"dead": {&events.Dead{Graph: "default", Stage: "chunker", Job: "j42", Doc: r.Token, Subject: "factmill.default.doc.loaded.j42." + r.Token,
			Stream: "FACTMILL_LOADED", Seq: 5, Attempts: 20, Code: "panic", Error: "boom", Body: []byte("{}")},
			"factmill.default.dead.chunker.j42." + r.Token, "dead:FACTMILL_LOADED:5"},
	}
}

func TestGoldenEvents(t *testing.T) {
	for name, s := range samples() {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, s.subject, s.ev.Where().String())
			require.Equal(t, s.id, s.ev.ID())
			got, err := events.Encode(s.ev)
			require.NoError(t, err)
			file := filepath.Join("testdata", "golden", name+".json")
			if *rewrite {
				var b bytes.Buffer
				require.NoError(t, json.Indent(&b, got, "", "  "))
				require.NoError(t, os.WriteFile(file, append(b.Bytes(), '\n'), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.JSONEq(t, string(want), string(got))
			back, err := events.Decode(s.subject, events.SchemaName(s.ev.Where().Kind), want)
			require.NoError(t, err)
			again, err := events.Encode(back)
			require.NoError(t, err)
			require.JSONEq(t, string(got), string(again), "a decoded event encodes to the same")
		})
	}
}

func TestDecodeRefuses(t *testing.T) {
	s := samples()["sealed"]
	body, err := events.Encode(s.ev)
	require.NoError(t, err)
	_, err = events.Decode(s.subject, "job.sealed/2", body)
	require.ErrorIs(t, err, events.ErrNewer)
	_, err = events.Decode(s.subject, "doc.loaded/1", body)
	require.ErrorContains(t, err, `schema header "doc.loaded/1" does not fit job.sealed`)
	_, err = events.Decode("factmill.default.job.sealed.other", "", body)
	require.ErrorContains(t, err, "is about factmill.default.job.sealed.j42")
	_, err = events.Decode("factmill.default.job.sealed.j42", "", []byte(`{"job":`))
	require.ErrorContains(t, err, "decode job.sealed")
	// Unknown fields of an event are ignored.
	var m map[string]any
	require.NoError(t, json.Unmarshal(body, &m))
	m["later"] = true
	more, err := json.Marshal(m)
	require.NoError(t, err)
	_, err = events.Decode(s.subject, "", more)
	require.NoError(t, err)
}

func TestParseSubject(t *testing.T) {
	for _, bad := range []string{"", "factmill", "factmill.default", "other.default.ingest", "factmill.UPPER.ingest", "factmill.default.ingest.x",
		"factmill.default.doc.found.j1", "factmill.default.doc.found.j1.a.b", "factmill.default.doc.nope.j1.a", "factmill.default.dead.s.j",
		"factmill.default.doc.found.j1.a*b", "factmill.default.job.sealed.>", "factmill.default.doc.found..a"} {
		_, err := events.ParseSubject(bad)
		require.Error(t, err, bad)
	}
	got, err := events.ParseSubject("factmill.g-1.dead.chunker.j1.abc")
	require.NoError(t, err)
	require.Equal(t, events.Subject{Graph: "g-1", Kind: "dead", Job: "chunker", Item: "j1.abc"}, got)
}

func TestNames(t *testing.T) {
	require.NoError(t, events.CheckGraph("default"))
	for _, bad := range []string{"", "A", "-a", "a.b", "a b", string(make([]byte, 65))} {
		require.Error(t, events.CheckGraph(bad), bad)
	}
	require.NoError(t, events.CheckJob("load-2024_01"))
	require.ErrorContains(t, events.CheckJob("j42"), "kept for events that name none")
	require.Error(t, events.CheckJob("a.b"))
	n, ok := events.ParseSeqJob("j42")
	require.True(t, ok)
	require.Equal(t, uint64(42), n)
	_, ok = events.ParseSeqJob("j99999999999999999999999")
	require.False(t, ok)
}

func FuzzDecode(f *testing.F) {
	for _, s := range samples() {
		b, err := events.Encode(s.ev)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.subject, events.SchemaName(s.ev.Where().Kind), b)
	}
	f.Fuzz(func(t *testing.T, subject, schema string, body []byte) {
		e, err := events.Decode(subject, schema, body)
		if err != nil {
			return
		}
		if got := e.Where().String(); got != subject {
			t.Fatalf("%q decoded into an event of %q", subject, got)
		}
	})
}

// A record's id hangs on every field and on the record before it.
func TestAuditRecordsAreChained(t *testing.T) {
	a := events.Audit{Graph: "g", At: "2024-05-01T12:00:00Z", Key: "match|e1|e2", Decision: events.DecisionSame, Actor: "eva", Before: "pending", After: "approved", Seq: 8}
	first, err := a.Sealed(1, "")
	require.NoError(t, err)
	require.Regexp(t, "^[0-9a-f]{32}$", first.Record)
	again, err := first.Sealed(1, "")
	require.NoError(t, err)
	require.Equal(t, first, again, "the id is that of the rest")
	seen := map[string]bool{first.Record: true}
	b := a
	b.Actor = "eve"
	ruled := func(index int) events.Audit {
		x := a
		x.Policy = &events.AuditPolicy{Rules: []events.AuditRule{{List: "auto_reject", Index: index}}}
		return x
	}
	for _, x := range []struct {
		rec  events.Audit
		no   uint64
		prev string
	}{{a, 2, ""}, {a, 1, first.Record}, {b, 1, ""}, {ruled(0), 1, ""}, {ruled(1), 1, ""}} {
		r, err := x.rec.Sealed(x.no, x.prev)
		require.NoError(t, err)
		require.False(t, seen[r.Record], "%+v", r)
		seen[r.Record] = true
	}
}
