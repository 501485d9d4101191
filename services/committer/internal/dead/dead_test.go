package dead_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/jobs"
)

// quarantined ends a source that a job puts aside; its bytes lie where the runner keeps them.
func (w *world) quarantined(job events.Job, src events.Source) *events.Ended {
	w.t.Helper()
	found := &events.Found{Job: job, Source: src}
	body, err := events.Encode(found)
	require.NoError(w.t, err)
	e := bus.EndedFor(found, events.OutcomeQuarantined, graph.Failure{Stage: "loader", Code: "bad_csv", Message: "row 3 is broken", TraceID: "t2"})
	e.Body, err = w.conn.PutBody(w.t.Context(), "g", job.ID, body)
	require.NoError(w.t, err)
	e.BodyKind, e.Items = events.KindFound, 4
	return e
}

func file(name string) events.Source {
	return events.Source{Token: fingerprint.Token(name), Name: name, Path: "in/" + name}
}

func TestListIsNewestFirst(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyQuarantine)
	other := job
	other.ID = "other"
	far := job
	far.Graph = "far"
	var want []string
	ofOther := map[string]bool{}
	for i := range 400 {
		j := job
		switch {
		case i%5 == 0:
			j = far
		case i%2 == 0:
			j = other
			ofOther[fmt.Sprint(i+1)] = true
		}
		w.park(loaded(j, fmt.Sprint("doc", i)), bus.StreamLoaded, uint64(i+1))
		if i%5 != 0 {
			want = append([]string{fmt.Sprint(i + 1)}, want...)
		}
	}
	w.later(time.Hour) // records are newer than the letters
	w.send(w.quarantined(job, file("a.csv")), w.quarantined(job, file("b.csv")), sealed(job, "a.csv", "b.csv"))
	w.wait("load", api.JobCommitted)
	want = append([]string{"q1-1", "q1-2"}, want...)

	// Holes, as a deletion leaves them.
	r, err := w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: []string{want[4], want[5], want[200]}})
	require.NoError(t, err)
	require.Equal(t, api.DeadDropReply{Dropped: []string{want[4], want[5], want[200]}, Skipped: map[string]api.DeadSkip{}}, r)
	want = append(append(append([]string{}, want[:4]...), want[6:200]...), want[201:]...)

	var got []string
	req := api.DeadList{Limit: 7}
	for {
		p, err := w.desk.List(t.Context(), "g", req)
		require.NoError(t, err)
		require.LessOrEqual(t, len(p.Letters), 7)
		for _, l := range p.Letters {
			got = append(got, l.ID)
		}
		if req.Cursor = p.Next; p.Next == "" {
			break
		}
		require.Len(t, p.Letters, 7, "only the last page is short")
	}
	require.Equal(t, want, got)

	require.Equal(t, []string{"q1-1", "q1-2"}, w.ids(api.DeadQuery{Kind: api.QuarantineKind}))
	require.Equal(t, []string{"q1-1", "q1-2"}, w.ids(api.DeadQuery{Stage: "loader"}))
	require.Equal(t, []string{}, w.ids(api.DeadQuery{Kind: api.DeadKind, Stage: "loader"}))
	require.Equal(t, []string{}, w.ids(api.DeadQuery{Code: "nope"}))
	require.Equal(t, "399", w.ids(api.DeadQuery{Job: "other", Code: "panic"})[0])
	all, err := w.desk.List(t.Context(), "g", api.DeadList{DeadQuery: api.DeadQuery{Job: "other"}, Limit: 500})
	require.NoError(t, err)
	var of []string
	for _, l := range all.Letters {
		of = append(of, l.ID)
	}
	require.Equal(t, slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !ofOther[id] }), of)

	letters := w.list(api.DeadQuery{})
	require.Equal(t, api.DeadLetter{ID: "q1-1", Kind: api.QuarantineKind, Stage: "loader", Job: "load", JobState: api.JobCommitted, Key: "a.csv",
		Code: "bad_csv", Reason: "row 3 is broken", TraceID: "t2", At: letters[0].At, Event: events.KindFound, Body: letters[0].Body, Items: 4}, letters[0])
	require.Regexp(t, "^FACTMILL_BODIES/load/[0-9a-f]{64}$", letters[0].Body)
	require.Equal(t, api.DeadLetter{ID: "400", Kind: api.DeadKind, Stage: "chunker", Job: "load", JobState: api.JobCommitted, Key: "doc399", Code: "panic",
		Reason: "boom", TraceID: "t1", At: letters[2].At, Event: events.KindLoaded, Subject: "factmill.g.doc.loaded.load." + fingerprint.Token("doc399"),
		Stream: bus.StreamLoaded, Seq: 400, Attempts: 3, Size: letters[2].Size}, letters[2])
	require.Positive(t, letters[2].Size)

	for _, c := range []struct {
		req           api.DeadList
		code, message string
	}{
		{api.DeadList{DeadQuery: api.DeadQuery{Kind: "x"}}, "bad_value", `kind is "x"`},
		{api.DeadList{DeadQuery: api.DeadQuery{Stage: "*"}}, "bad_name", `stage is "*"`},
		{api.DeadList{DeadQuery: api.DeadQuery{Job: "a.>"}}, "bad_name", `job is "a.>"`},
		{api.DeadList{Limit: 501}, "bad_value", "limit is 501"},
		{api.DeadList{Cursor: "zz"}, "bad_value", "the cursor"},
	} {
		_, err := w.desk.List(t.Context(), "g", c.req)
		refused(t, err, 400, c.code, c.message)
	}
}

// A list is cut by bytes, and goes on where it was cut.
func TestListIsCutByBytes(t *testing.T) {
	w := newWorld(t)
	job := events.Job{Graph: "g", ID: "load", Attempt: 1}
	const n = 500
	for i := range n {
		e := loaded(job, strings.Repeat("k", 1000)+fmt.Sprint(i))
		e.Text = strings.Repeat("x", 3000)
		w.park(e, bus.StreamLoaded, uint64(i+1))
	}
	got := 0
	req := api.DeadList{Limit: n}
	for pages := 0; ; pages++ {
		r, err := w.desk.List(t.Context(), "g", req)
		require.NoError(t, err)
		b, err := json.Marshal(r)
		require.NoError(t, err)
		require.Less(t, len(b), 700<<10)
		for _, l := range r.Letters {
			require.Equal(t, fmt.Sprint(n-got), l.ID)
			got++
		}
		if req.Cursor = r.Next; r.Next == "" {
			require.Positive(t, pages, "it was cut")
			break
		}
	}
	require.Equal(t, n, got)
}

func TestShow(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicySkip)
	e := loaded(job, "a")
	e.Text = strings.Repeat("long ", 1000)
	w.park(e, bus.StreamLoaded, 9)
	big := loaded(job, "big")
	big.Text = strings.Repeat("x", bus.InlineBody)
	w.park(big, bus.StreamLoaded, 10)
	w.raw("factmill.g.dead.chunker.load.x", nil, []byte("no dead letter\xff"))
	w.park(&events.Found{Job: events.Job{Graph: "far", ID: "load"}, Source: file("x.csv")}, bus.StreamFound, 1)

	r, err := w.desk.Show(t.Context(), "g", api.DeadShow{ID: "1"})
	require.NoError(t, err)
	require.Equal(t, "a", r.Letter.Key)
	require.Equal(t, api.JobPending, r.Letter.JobState)
	require.Equal(t, map[string]string{"Factmill-Schema": "doc.loaded/1", "Nats-Msg-Id": e.ID()}, r.Headers)
	var m struct {
		Text string `json:"text"`
		Job  struct {
			At struct {
				Time int64 `json:"time"`
			} `json:"at"`
		} `json:"job"`
	}
	require.NoError(t, json.Unmarshal(r.Message, &m))
	require.Equal(t, strings.Repeat("long ", 200)+"… (5000 bytes)", m.Text)
	require.Equal(t, job.At.Time, m.Job.At.Time, "numbers stay exact")
	require.True(t, r.Cut)
	require.Nil(t, r.Content)
	r, err = w.desk.Show(t.Context(), "g", api.DeadShow{ID: "1", Content: true})
	require.NoError(t, err)
	whole, err := events.Encode(e)
	require.NoError(t, err)
	require.Equal(t, whole, r.Content)

	r, err = w.desk.Show(t.Context(), "g", api.DeadShow{ID: "2", Content: true})
	require.NoError(t, err)
	require.Regexp(t, "^FACTMILL_BODIES/load/", r.Letter.Body)
	require.Nil(t, r.Content, "it lies in the object store")
	require.True(t, r.Cut)
	r, err = w.desk.Show(t.Context(), "g", api.DeadShow{ID: "3"})
	require.NoError(t, err)
	require.Equal(t, []string{"unreadable", "chunker", "load", "no dead letter\ufffd"},
		[]string{r.Letter.Code, r.Letter.Stage, r.Letter.Job, strings.ToValidUTF8(r.Text, "\ufffd")})
	require.NotEmpty(t, r.NoMessage)

	for _, id := range []string{"4", "5", "0", "01", "-1", "q1-1", "", "x"} {
		_, err := w.desk.Show(t.Context(), "g", api.DeadShow{ID: id})
		refused(t, err, 404, "dead_letter_not_found", fmt.Sprintf("%q", id))
	}
}

// A pending job waits again for a document whose dead letter is replayed, across a restart and a late second end.
func TestReplayIntoAPendingJob(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicySkip)
	e := loaded(job, "b")
	end := w.park(e, bus.StreamLoaded, 5)
	w.send(results(loaded(job, "a"))...)
	w.send(end)
	s, err := w.m.Get(t.Context(), "g", "load")
	require.NoError(t, err)
	require.Equal(t, 1, s.Documents.Failed)
	require.Equal(t, []graph.Failure{*end.Failure}, s.Stages.Chunking.Failures.List)

	r, err := w.replay("1")
	require.NoError(t, err)
	require.Equal(t, api.DeadReplayReply{Replayed: []api.Replayed{{ID: "1", How: "republished", Job: "load"}}, Skipped: map[string]api.DeadSkip{}}, r)
	require.Empty(t, w.list(api.DeadQuery{}))
	msgs := w.messages(bus.StreamLoaded)
	require.Len(t, msgs, 1)
	body, err := events.Encode(e)
	require.NoError(t, err)
	require.Equal(t, body, msgs[0].Data)
	require.Equal(t, "replay:FACTMILL_LOADED:5:1", msgs[0].Header.Get("Nats-Msg-Id"))
	require.Equal(t, "doc.loaded/1", msgs[0].Header.Get("Factmill-Schema"))

	w.send(end, sealed(job, "a", "b")) // the end comes again, late
	w.restart()
	w.send(end)
	s, err = w.m.Get(t.Context(), "g", "load")
	require.NoError(t, err)
	require.Equal(t, []any{api.JobPending, 0, 0}, []any{s.State, s.Documents.Failed, s.Stages.Chunking.Failures.Total}, "the job waits for it")
	w.send(results(e)...)
	s = w.wait("load", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 2}, s.Documents)
}

// A message that is parked again after its replay ends its document again.
func TestReplayedMessageFailsAgain(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyQuarantine)
	found := &events.Found{Job: job, Source: file("rows.csv")}
	w.send(w.park(found, bus.StreamFound, 5), sealed(job, "rows.csv", "a"))
	_, err := w.replay("1")
	require.NoError(t, err)
	w.send(results(loaded(job, "a"))...)
	again := w.park(found, bus.StreamFound, 6)
	require.NotEqual(t, again.ID(), (&events.Ended{Job: job, Source: again.Source, Outcome: again.Outcome, Parked: "FACTMILL_FOUND:5"}).ID(),
		"else the stream would drop it as a duplicate")
	w.send(again)
	s := w.wait("load", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Failed: 1}, s.Documents)
	require.Equal(t, 1, s.Stages.Chunking.Failures.Total)
	require.Equal(t, []string{"2"}, w.ids(api.DeadQuery{}))
}

func TestReplayInJobsThatCannotTakeIt(t *testing.T) {
	w := newWorld(t)
	held := w.accept("held", events.PolicySkip, func(r *api.JobOpen) { r.Hold = true })
	w.send(w.park(loaded(held, "b"), bus.StreamLoaded, 5), sealed(held, "b"))
	w.wait("held", api.JobHeld)
	_, err := w.replay("1")
	refused(t, err, 412, "job_held", "job held is held")
	require.Equal(t, []string{"1"}, w.ids(api.DeadQuery{}))

	job := w.accept("load", events.PolicySkip)
	w.park(&events.Sealed{Job: job}, bus.StreamCommit, 8) // nothing ended with it
	r, err := w.replay("2")
	require.NoError(t, err)
	require.Equal(t, api.ReplayRepublished, r.Replayed[0].How)
	require.Len(t, w.messages(bus.StreamCommit), 1)

	old := loaded(job, "old")
	old.Job.Attempt = 0
	w.park(old, bus.StreamLoaded, 9)
	_, err = w.replay("3")
	refused(t, err, 412, "not_replayable", "has started again since (attempt 1)")
}

// When the job has ended, a job of its own ingests the document; the letter goes when that has committed.
func TestReplayStartsAJob(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyRaise, func(r *api.JobOpen) { r.Force, r.Candidates = true, false })
	e := loaded(job, "b")
	w.send(w.park(e, bus.StreamLoaded, 5))
	require.Equal(t, "panic: boom", w.wait("load", api.JobRolledBack).Reason)

	r, err := w.replay("1")
	require.NoError(t, err)
	first := r.Replayed[0].Job
	require.Equal(t, api.DeadReplayReply{Replayed: []api.Replayed{{ID: "1", How: "new_job", Job: first}}, Skipped: map[string]api.DeadSkip{}}, r)
	require.Regexp(t, "^replay-[0-9a-f]{12}$", first)
	require.Equal(t, []map[string]any{{
		"job": first, "key": "b", "text": "Text of b.", "title": "T", "format": "text", "source_updated_at": "2024-05-01T00:00:00Z",
		"force": true, "candidates": false,
	}}, w.ingested("g"))
	require.Empty(t, w.messages(bus.StreamLoaded))
	require.Equal(t, &api.ReplayJob{Job: first, State: api.JobPending, At: w.list(api.DeadQuery{})[0].Replay.At}, w.list(api.DeadQuery{})[0].Replay)
	_, err = w.replay("1")
	refused(t, err, 412, "replay_running", "by job "+first+" (pending)")

	w.accept(first, events.PolicyRaise)
	_, err = w.m.Cancel(t.Context(), "g", first, "no")
	require.NoError(t, err)
	l := w.list(api.DeadQuery{})[0]
	require.Equal(t, []string{api.JobRolledBack, "cancelled: no"}, []string{l.Replay.State, l.Replay.Reason}, "it stays when its replay fails")

	r, err = w.replay("1")
	require.NoError(t, err)
	second := r.Replayed[0].Job
	require.NotEqual(t, first, second)
	w.restart()
	w.run(second)
	require.Empty(t, w.list(api.DeadQuery{}))
	_, err = w.desk.Show(t.Context(), "g", api.DeadShow{ID: "1"})
	refused(t, err, 404, "dead_letter_not_found", "")
	require.Empty(t, w.messages(bus.StreamDead))
}

// A crash between the mark and the publish: the same job is published by the next call.
func TestReplayAfterACrash(t *testing.T) {
	w := newWorld(t)
	w.park(loaded(events.Job{Graph: "g", ID: "gone"}, "b"), bus.StreamLoaded, 5)
	r, err := w.replay("1")
	require.NoError(t, err)
	job := r.Replayed[0].Job
	s, err := w.conn.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	require.NoError(t, s.Purge(t.Context()))
	require.Equal(t, "", w.list(api.DeadQuery{})[0].Replay.State)
	r, err = w.replay("1")
	require.NoError(t, err)
	require.Equal(t, job, r.Replayed[0].Job)
}

func TestReplayPlans(t *testing.T) {
	w := newWorld(t)
	job := events.Job{Graph: "g", ID: "over", Attempt: 1, Op: events.OpAdd, At: graph.Order{Time: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC).UnixNano()}}
	update := job
	update.Op = events.OpUpdate
	const then = "2024-05-01T00:00:00Z"
	src := func(s events.Source) *events.Found {
		s.Token, s.Name = "src", "n"
		return &events.Found{Job: job, Source: s}
	}
	meta := graph.Meta{Key: "k", Format: "html", SourceUpdatedAt: "2023", Metadata: map[string]any{"a": "b"}, Scope: graph.Scope{"x", "y"}}
	seq := uint64(0)
	for name, c := range map[string]struct {
		e    events.Event
		want map[string]any
		why  string
	}{
		"file":     {e: src(events.Source{Path: "a/b.csv", Meta: &events.InputDocument{Format: "csv", Scope: graph.Scope{"s"}}}), want: map[string]any{"sources": []any{"a/b.csv"}, "format": "csv", "scope": "s"}},
		"object":   {e: src(events.Source{Object: "b/n"}), want: map[string]any{"sources": []any{"object:b/n"}}},
		"inline":   {e: src(events.Source{Document: &events.InputDocument{Key: "k", Text: "t"}}), want: map[string]any{"key": "k", "text": "t", "source_updated_at": then}},
		"empty":    {e: src(events.Source{Document: &events.InputDocument{Key: "k", SourceUpdatedAt: "2020"}}), want: map[string]any{"key": "k", "text": "", "source_updated_at": "2020"}},
		"update":   {e: &events.Found{Job: update, Source: events.Source{Token: "src", Path: "p", Meta: &events.InputDocument{Key: "k"}}}, want: map[string]any{"op": "update", "sources": []any{"p"}, "key": "k"}},
		"delete":   {e: src(events.Source{Delete: "k"}), want: map[string]any{"op": "delete", "key": "k", "source_updated_at": then}},
		"anew":     {e: src(events.Source{Only: "k"}), why: `no job waits for it, and a doc.found message does not hold the whole document; ingest the document again: key "k"`},
		"relist":   {e: src(events.Source{Relist: true}), why: "ingest the documents again"},
		"loaded":   {e: &events.Loaded{Job: update, Doc: ref("k"), Meta: meta, Text: "# T", Markup: "markdown"}, want: map[string]any{"key": "k", "text": "# T", "format": "markdown", "source_updated_at": "2023", "metadata": map[string]any{"a": "b"}, "scope": []any{"x", "y"}}},
		"staged":   {e: &events.Staged{Job: job, Doc: ref("k"), Meta: graph.Meta{Key: "k", Format: "csv"}, Decision: graph.InPlace, Text: "t"}, want: map[string]any{"key": "k", "text": "t", "format": "text", "source_updated_at": then}},
		"meta":     {e: &events.Staged{Job: job, Doc: ref("k"), Decision: graph.MetadataOnly}, why: `key "k"`},
		"removal":  {e: &events.Staged{Job: job, Doc: ref("k"), Decision: graph.Delete}, want: map[string]any{"op": "delete", "key": "k", "source_updated_at": then}},
		"chunked":  {e: &events.Chunked{Job: job, Doc: ref("k"), Text: "t"}, why: `a doc.chunked message does not hold the whole document; ingest the document again: key "k"`},
		"resolved": {e: &events.Resolved{Job: job, Doc: ref("k")}, why: `a doc.resolved message does not hold the whole document; ingest the document again: key "k"`},
		"sealed":   {e: &events.Sealed{Job: job}, why: "a job.sealed message alone does nothing: drop it"},
	} {
		seq++
		w.park(c.e, bus.StreamLoaded, seq)
		r, err := w.replay(fmt.Sprint(seq))
		if c.why != "" {
			refused(t, err, 412, "not_replayable", c.why)
			continue
		}
		require.NoError(t, err, name)
		all := w.ingested("g")
		got := all[len(all)-1]
		c.want["job"] = r.Replayed[0].Job
		require.Equal(t, c.want, got, name)
		b, err := json.Marshal(got)
		require.NoError(t, err)
		_, err = events.ParseIngest(b, nil)
		require.NoError(t, err, name)
	}
}

// Uploaded bytes and large texts go back as uploads; a document event is published again under a job of its own.
func TestReplayOfLargeAndWhole(t *testing.T) {
	w := newWorld(t)
	job := events.Job{Graph: "g", ID: "over"}
	w.park(&events.Found{Job: job, Source: events.Source{Token: "src", Name: "docs/a.csv", Data: []byte("a,b\n"), Meta: &events.InputDocument{Title: "T"}}}, bus.StreamFound, 1)
	large := loaded(job, "large")
	large.Text = strings.Repeat("y", 2<<20)
	w.park(large, bus.StreamLoaded, 2)
	r, err := w.replay("1", "2", "77")
	require.NoError(t, err)
	require.Equal(t, map[string]api.DeadSkip{"77": {Code: "dead_letter_not_found", Message: `graph g has no dead letter or quarantine record "77"`}}, r.Skipped)
	for i, want := range []struct {
		name, key, title, data string
	}{{"docs/a.csv", "", "T", "a,b\n"}, {".txt", "large", "T", large.Text}} {
		name := r.Replayed[i].Job + ".tar"
		require.Equal(t, []any{"object:FACTMILL_UPLOADS/" + name}, w.ingested("g")[i]["sources"])
		e := w.entry(name)
		require.Equal(t, []string{want.name, want.key, want.title, want.data}, []string{e.Name, e.Meta.Key, e.Meta.Title, string(e.Data)})
	}

	event := []byte(`{"job":"nightly","key":"k","text":"t","metadata":{"n":12345678901234567890}}`)
	for i, body := range [][]byte{event, []byte("plain text"), []byte(`{"nope":1}`)} {
		d := &events.Dead{Graph: "g", Stage: "loader", Job: "nightly", Doc: "event", Subject: "factmill.g.ingest", Stream: bus.StreamIngest, Seq: uint64(i + 90),
			Code: "panic", Error: "boom", Body: body, Headers: map[string]string{"Factmill-Key": "plain", "Nats-Msg-Id": "x"}}
		require.NoError(t, w.conn.Publish(t.Context(), d))
	}
	r, err = w.replay("3", "4", "5")
	require.NoError(t, err)
	require.Contains(t, r.Skipped["5"].Message, `unknown field "nope" in the document event; publish a better one`)
	msgs := w.messages(bus.StreamIngest)
	require.Len(t, msgs, 4)
	require.JSONEq(t, `{"job":"`+r.Replayed[0].Job+`","key":"k","text":"t","metadata":{"n":12345678901234567890}}`, string(msgs[2].Data))
	require.Equal(t, []string{"plain text", "plain", r.Replayed[1].Job, r.Replayed[1].Job},
		[]string{string(msgs[3].Data), msgs[3].Header.Get("Factmill-Key"), msgs[3].Header.Get("Factmill-Job"), msgs[3].Header.Get("Nats-Msg-Id")})
}

func TestPoisonCanOnlyBeDropped(t *testing.T) {
	w := newWorld(t)
	d := &events.Dead{Graph: "g", Stage: "chunker", Job: "jx", Doc: "x", Subject: "factmill.g.doc.loaded.jx.x", Stream: bus.StreamLoaded, Seq: 1,
		Code: "undecodable", Error: "decode doc.loaded: no", Body: []byte("{"), Headers: map[string]string{}}
	require.NoError(t, w.conn.Publish(t.Context(), d))
	s, err := w.desk.Show(t.Context(), "g", api.DeadShow{ID: "1"})
	require.NoError(t, err)
	require.Equal(t, []string{"{", "it cannot be read: decode doc.loaded: unexpected end of JSON input"}, []string{s.Text, s.NoMessage})
	_, err = w.replay("1")
	refused(t, err, 412, "not_replayable", "the message cannot be read (decode doc.loaded: unexpected end of JSON input); ingest the document again, and drop this")
	r, err := w.desk.Drop(t.Context(), "g", api.DeadAct{Query: &api.DeadQuery{Code: "undecodable"}, RequestID: "of a graph that never was"})
	require.NoError(t, err)
	require.Equal(t, []string{"1"}, r.Dropped)
	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: []string{"1"}})
	refused(t, err, 404, "dead_letter_not_found", `"1"`)
	_, ok := w.st.Graph("g", false)
	require.False(t, ok, "looking at letters makes no graph")
}

func TestActs(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyRaise)
	for i := range 5 {
		w.park(loaded(job, fmt.Sprint("d", i)), bus.StreamLoaded, uint64(i+1))
	}
	_, err := w.desk.Drop(t.Context(), "g", api.DeadAct{})
	refused(t, err, 400, "bad_value", "either ids or a query")
	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: []string{"1"}, Query: &api.DeadQuery{}})
	refused(t, err, 400, "bad_value", "either ids or a query")
	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: make([]string, 501)})
	refused(t, err, 400, "bad_value", "501 ids")

	req := api.DeadAct{Query: &api.DeadQuery{Stage: "chunker"}, Limit: 2, RequestID: "r1"}
	first, err := w.desk.Drop(t.Context(), "g", req)
	require.NoError(t, err)
	require.Equal(t, []string{"5", "4"}, first.Dropped)
	again, err := w.desk.Drop(t.Context(), "g", req)
	require.NoError(t, err)
	require.Equal(t, first, again, "the same request drops nothing more")
	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: []string{"1"}, RequestID: "r1"})
	refused(t, err, 409, "operation_reused", "r1")
	rest, err := w.desk.Drop(t.Context(), "g", api.DeadAct{Query: &api.DeadQuery{}, Cursor: first.Next})
	require.NoError(t, err)
	require.Equal(t, api.DeadDropReply{Dropped: []string{"3", "2", "1"}, Skipped: map[string]api.DeadSkip{}}, rest)
	require.Empty(t, w.list(api.DeadQuery{}))
}

// Bodies that a letter or a record names outlive their job, and go with it.
func TestBodiesStayAsLongAsTheyAreNamed(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyQuarantine)
	big := loaded(job, "big")
	big.Text = strings.Repeat("x", bus.InlineBody)
	end := w.park(big, bus.StreamLoaded, 1)
	put := w.quarantined(job, file("a.csv"))
	_, err := w.conn.PutBody(t.Context(), "g", "load", []byte("only for the job"))
	require.NoError(t, err)
	w.send(end, put, sealed(job, "big", "a.csv"))
	s := w.wait("load", api.JobCommitted)
	require.Equal(t, api.DocumentCounts{Total: 2, Quarantined: 1, Failed: 1}, s.Documents)
	require.Equal(t, 4, s.Stages.Ingestion.QuarantinedItems)
	require.NoError(t, w.desk.DeleteBodies(t.Context(), "g", "load"))
	require.Len(t, w.objects(bus.BucketBodies), 2)

	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{IDs: []string{"1"}})
	require.NoError(t, err)
	hash := strings.TrimPrefix(put.Body, "FACTMILL_BODIES/load/")
	require.Equal(t, []string{"g/load/" + hash + " left=false"}, w.objects(bus.BucketBodies))
	r, err := w.replay("q1-1")
	require.NoError(t, err)
	require.Equal(t, []any{"in/a.csv"}, w.ingested("g")[0]["sources"])
	require.Len(t, w.objects(bus.BucketBodies), 1, "the replay may fail")
	w.run(r.Replayed[0].Job)
	require.Empty(t, w.list(api.DeadQuery{}))
	require.Empty(t, w.objects(bus.BucketBodies))
}

// What an atomic: document job put aside is kept when it is cancelled after some of it committed.
func TestQuarantineOfAJobThatStopped(t *testing.T) {
	w := newWorld(t)
	job := w.accept("load", events.PolicyQuarantine, func(r *api.JobOpen) { r.Atomic = events.AtomicDocument })
	w.send(append(results(loaded(job, "a")), w.quarantined(job, file("a.csv")))...)
	w.waitCommit("load")
	_, err := w.m.Cancel(t.Context(), "g", "load", "")
	require.NoError(t, err)
	s := w.wait("load", api.JobRolledBack)
	require.Equal(t, uint64(1), s.CommitSeq)
	l := w.list(api.DeadQuery{})
	require.Len(t, l, 1)
	require.Equal(t, []string{"q1-1", "a.csv", api.JobRolledBack}, []string{l[0].ID, l[0].Key, l[0].JobState})

	all := w.accept("whole", events.PolicyQuarantine)
	w.send(w.quarantined(all, file("b.csv")))
	_, err = w.m.Cancel(t.Context(), "g", "whole", "")
	require.NoError(t, err)
	w.wait("whole", api.JobRolledBack)
	require.Len(t, w.list(api.DeadQuery{}), 1, "of a job that left nothing nothing was put aside")
}

func TestUploadsGoWithTheirJob(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"own.tar", "shared.tar", "letter.csv", "record.csv", "other.csv"} {
		w.put(bus.BucketUploads, n, n)
	}
	event := func(body string) uint64 {
		seq, err := w.conn.Ingest(t.Context(), "g", []byte(body), nil)
		require.NoError(t, err)
		return seq
	}
	seq := event(`{"sources":["object:FACTMILL_UPLOADS/own.tar","object:FACTMILL_UPLOADS/shared.tar","object:FACTMILL_UPLOADS/letter.csv","object:FACTMILL_UPLOADS/record.csv","object:mine/own","x.txt"]}`)
	later := event(`{"sources":["object:FACTMILL_UPLOADS/shared.tar"]}`)
	job := w.accept("load", events.PolicyQuarantine)
	object := func(n string) events.Source {
		return events.Source{Token: fingerprint.Token(n), Name: "object:FACTMILL_UPLOADS/" + n, Object: "FACTMILL_UPLOADS/" + n}
	}
	d := &events.Found{Job: job, Source: object("letter.csv")}
	end := w.parkAs("loader", d, bus.StreamFound, 1)
	w.send(end, w.quarantined(job, object("record.csv")), sealed(job, "letter.csv", "record.csv"))
	w.wait("load", api.JobCommitted)

	require.NoError(t, w.desk.DeleteUploads(t.Context(), []jobs.Ended{{Graph: "far", Job: "load", Seq: seq}, {Graph: "g", Job: "x", Seq: 99}}))
	require.Len(t, w.objects(bus.BucketUploads), 5, "another graph's event is not theirs")
	require.NoError(t, w.desk.DeleteUploads(t.Context(), []jobs.Ended{{Graph: "g", Job: "load", Seq: seq}}))
	require.ElementsMatch(t, []string{"shared.tar left=false", "letter.csv left=false", "record.csv left=false", "other.csv left=false"}, w.objects(bus.BucketUploads))

	s, err := w.conn.JS.Stream(t.Context(), bus.StreamIngest)
	require.NoError(t, err)
	require.NoError(t, s.DeleteMsg(t.Context(), seq))
	_, err = w.desk.Drop(t.Context(), "g", api.DeadAct{Query: &api.DeadQuery{}})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"shared.tar left=false", "other.csv left=false"}, w.objects(bus.BucketUploads))
	require.NoError(t, w.desk.DeleteUploads(t.Context(), []jobs.Ended{{Graph: "g", Job: "later", Seq: later}}))
	require.Equal(t, []string{"other.csv left=false"}, w.objects(bus.BucketUploads))
}

func TestSweep(t *testing.T) {
	w := newWorld(t)
	for _, n := range []string{"named.csv", "lost.csv", "deleted.csv"} {
		w.put(bus.BucketUploads, n, n)
	}
	b, err := w.conn.Bucket(t.Context(), bus.BucketUploads)
	require.NoError(t, err)
	require.NoError(t, b.Delete(t.Context(), "deleted.csv")) // leaves a marker
	w.raw("$O.FACTMILL_UPLOADS.C.broken", nats.Header{}, []byte("an upload that broke off"))
	_, err = w.conn.Ingest(t.Context(), "g", []byte(`{"sources":["object:FACTMILL_UPLOADS/named.csv"]}`), nil)
	require.NoError(t, err)
	job := w.accept("live", events.PolicyRaise)
	for _, id := range []string{"live", "over", "named"} {
		_, err = w.conn.PutBody(t.Context(), "g", id, []byte("left by a late worker"))
		require.NoError(t, err)
	}
	big := loaded(events.Job{Graph: "g", ID: "named"}, "big")
	big.Text = strings.Repeat("x", bus.InlineBody)
	w.park(big, bus.StreamLoaded, 1)

	require.NoError(t, w.desk.Sweep(t.Context()))
	require.ElementsMatch(t, []string{"named.csv left=false", "lost.csv left=false", "deleted.csv left=true", "$O.FACTMILL_UPLOADS.C.broken left=true"},
		w.objects(bus.BucketUploads), "a client may be about to name it")
	require.Len(t, w.objects(bus.BucketBodies), 4)
	w.later(24*time.Hour + time.Minute)
	require.NoError(t, w.desk.Sweep(t.Context()))
	require.Equal(t, []string{"named.csv left=false"}, w.objects(bus.BucketUploads))
	bodies := strings.Join(w.objects(bus.BucketBodies), "\n")
	require.Contains(t, bodies, "g/live/")
	require.Contains(t, bodies, "g/named/")
	require.Equal(t, 2, strings.Count(bodies, "left=false"))
	require.NotContains(t, bodies, "g/over/")
	_ = job
}
