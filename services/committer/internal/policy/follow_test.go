package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const lowOut = `{version: "3", auto_reject: [{kind: entity, max_confidence: 0.3}, {label: JUNK}], auto_accept: [{kind: entity, label: Saw, min_confidence: 0.8}, {kind: relation, min_confidence: 0.8}]}`

// What comes is decided, the rest waits; the records say by what.
func TestDecides(t *testing.T) {
	r := newRoom(t)
	r.put(lowOut)
	r.read("a", "Person:Ada", "0.2 entity Mast foremast", "0.9 entity Saw fretsaw", "0.5 entity Saw handsaw", "0.9 relation OWNS Ada > fretsaw", "0.9 relation OWNS Ada > nowhere")
	seq := r.read("b", "0.1 entity Mast foremast", "0.2 entity JUNK tin", "0.9 entity JUNK can")
	r.through()
	want := []string{"entity|junk|can rejected", "entity|junk|tin rejected", "entity|mast|foremast rejected", "entity|saw|fretsaw approved", "entity|saw|handsaw pending",
		"relation|owns|ada|fretsaw approved", "relation|owns|ada|nowhere pending"}
	require.Equal(t, want, r.states(), "the relation's end was approved before it")
	records := r.records()
	require.Len(t, records, 5)
	byKey := map[string]events.Audit{}
	for _, a := range records {
		require.Equal(t, []string{"policy", "pending"}, []string{a.Actor, a.Before})
		require.Regexp(t, "^policy-[0-9a-f]{32}$", a.RequestID)
		byKey[a.Key] = a
	}
	fp := r.sch.ReviewFingerprint()
	a := byKey["entity|mast|foremast"]
	require.Equal(t, []string{"reject", "rejected", "auto_reject[0] of policy 3 (" + fp + ")"}, []string{a.Decision, a.After, a.Reason})
	low := 0.3
	require.Equal(t, &events.AuditPolicy{
		Version: "3", Fingerprint: fp, Rules: []events.AuditRule{{List: "auto_reject", Index: 0, Condition: schema.Condition{Kind: "entity", MaxConfidence: &low}}},
		Schema: "t", SchemaVersion: "7", SchemaFingerprint: r.sch.Fingerprint(), Extractions: []string{"eea", "eeb"},
	}, a.Policy)
	require.Contains(t, string(a.Item), "foremast")
	a = byKey["entity|junk|tin"]
	require.Equal(t, "auto_reject[0] of policy 3 ("+fp+")", a.Reason, "the first that fits")
	a = byKey["relation|owns|ada|fretsaw"]
	require.Equal(t, []any{"approve", "auto_accept", 1}, []any{a.Decision, a.Policy.Rules[0].List, a.Policy.Rules[0].Index})

	require.Greater(t, r.seq(), seq)
	told := r.told
	require.Positive(t, told)
	require.Zero(t, r.through(), "there is nothing left")
	require.Equal(t, told, r.told)

	// A record that does not fit holds its key back; when it goes, the rest is decided.
	r.read("e", "0.9 entity Mast jigger")
	r.read("f", "0.2 entity Mast jigger")
	r.through()
	require.Equal(t, "pending", r.state("entity|mast|jigger"))
	r.read("e", "Person:Bob")
	r.through()
	require.Equal(t, "rejected", r.state("entity|mast|jigger"))
	r.records()
}

// A commit of many keys is gone through in pages, entities first, so that what refers to them finds them.
func TestLargeCommits(t *testing.T) {
	r := newRoom(t)
	r.put(lowOut)
	r.through()
	var items, want []string
	for i := range 10 {
		items = append(items, fmt.Sprintf("0.9 relation NEAR saw%d > saw%d", i, (i+7)%10), fmt.Sprintf("0.9 entity Saw saw%d", i))
		want = append(want, fmt.Sprintf("relation|near|saw%d|saw%d approved", i, (i+7)%10), fmt.Sprintf("entity|saw|saw%d approved", i))
	}
	r.read("a", items...)
	r.read("b", "0.2 entity Mast foremast")
	require.Greater(t, r.through(), 10, "pages of three, twice")
	slices.Sort(want)
	require.Equal(t, append([]string{"entity|mast|foremast rejected"}, want...), r.states())
}

// Another policy, or one that comes late, goes over all that waits, once; no policy does nothing and costs nothing.
func TestNewPolicy(t *testing.T) {
	r := newRoom(t)
	for i := range 8 {
		r.read(fmt.Sprint("d", i), fmt.Sprintf("0.%d entity Mast mast%d", i+1, i))
	}
	row := func() []byte {
		b, err := r.st.Get(g, space, keyPosition)
		require.NoError(t, err)
		return b
	}
	for _, review := range []string{"", "{manual: [{kind: entity}], stale: keep, auto_reject: [{deletes: true}], auto_accept: [{kind: stale}]}"} {
		r.put(review)
		require.Zero(t, r.through())
		require.Nil(t, row(), "nothing is written without conditions that decide")
	}
	require.Zero(t, r.told)
	r.put("{auto_reject: [{kind: entity, max_confidence: 0.25}]}")
	require.Equal(t, 3, r.through(), "8 keys in pages of three")
	require.Equal(t, 2, count(r.states(), "rejected"))
	require.NotNil(t, row())
	require.Zero(t, r.through())
	r.put("{auto_reject: [{kind: entity, max_confidence: 0.25}], stale: keep, auto_accept: [{kind: entity, min_confidence: 0.75}]}")
	require.Equal(t, 3, r.through())
	require.Equal(t, []int{2, 1, 5}, []int{count(r.states(), "rejected"), count(r.states(), "approved"), count(r.states(), "pending")})
	require.Zero(t, r.through())

	// Off and on again: what came meanwhile is decided.
	on := r.sch
	r.put("")
	r.read("e", "0.1 entity Mast spar")
	require.Zero(t, r.through())
	r.sch, r.rev = on, r.rev+1
	r.through()
	require.Equal(t, "rejected", r.state("entity|mast|spar"))

	// A feed that was trimmed is replaced by going over all.
	r.read("f", "0.1 entity Mast boom")
	seq := r.read("h", "Person:Ada")
	require.NoError(t, r.st.TrimFeed(t.Context(), g, seq))
	r.through()
	require.Equal(t, "rejected", r.state("entity|mast|boom"))
	require.Zero(t, r.through())
}

func count(states []string, state string) (n int) {
	for _, s := range states {
		if strings.HasSuffix(s, " "+state) {
			n++
		}
	}
	return n
}

// What people decided, edited or took back is theirs.
func TestPeopleWin(t *testing.T) {
	r := newRoom(t)
	ctx := t.Context()
	decide := func(decision string, keys ...string) api.DecideReply {
		reply, err := r.desk.Decide(ctx, g, api.CandidatesDecide{Keys: keys, Decision: decision, Actor: "eva"})
		require.NoError(t, err)
		return reply
	}
	docs := []string{"0.2 entity Mast one", "0.2 entity Mast two", "0.2 entity Mast three", "0.2 entity Mast four", "0.2 entity Mast five"}
	for i, d := range docs {
		r.read(fmt.Sprint(i), d)
	}
	decide("approve", "entity|mast|one")
	decide("reject", "entity|mast|two")
	edited := r.record("2", "entity|mast|three")
	_, err := r.desk.Edit(ctx, g, api.ReviewEdit{ID: edited.ID, Set: map[string]any{"label": "Spar"}, Actor: "eva"})
	require.NoError(t, err)
	r.put(lowOut)
	r.through()
	require.Equal(t, []string{"entity|mast|five rejected", "entity|mast|four rejected", "entity|mast|one approved", "entity|mast|three pending", "entity|mast|two rejected"}, r.states())

	// The edit goes with its quote, and yet somebody was there.
	r.read("2", "Person:Ada")
	r.read("2", "0.2 entity Mast three")
	require.Nil(t, r.record("2", "entity|mast|three").Edited)
	r.through()
	require.Equal(t, "pending", r.state("entity|mast|three"))

	// A rejection of the policy is taken back, one by undo, one by prune: both come again and stay.
	last := map[string]events.Audit{}
	for _, a := range r.records() {
		last[a.Key] = a
	}
	require.NotNil(t, last["entity|mast|four"].Policy)
	_, err = r.desk.Undo(ctx, g, api.CandidatesUndo{Record: last["entity|mast|four"].Record, Actor: "eva"})
	require.NoError(t, err)
	_, err = r.desk.Prune(ctx, g, api.ReviewPrune{Rejected: true, Apply: true, Actor: "eva"})
	require.NoError(t, err)
	for _, again := range []string{"", "{auto_reject: [{kind: entity, max_confidence: 0.4}]}"} { // whatever the policy becomes
		if again != "" {
			r.put(again)
		}
		for i, d := range docs[1:] {
			r.read(fmt.Sprint(i+1), d)
		}
		r.through()
		require.Equal(t, []string{"pending", "pending", "pending", "pending"}, []string{r.state("entity|mast|two"), r.state("entity|mast|three"), r.state("entity|mast|four"), r.state("entity|mast|five")})
	}
	// Forgetting one that waited says nothing about what is to become of it.
	r.put("{}")
	r.read("x", "0.2 entity Mast six")
	below := 5
	_, err = r.desk.Prune(ctx, g, api.ReviewPrune{PendingBelowCount: &below, Apply: true, Actor: "eva"})
	require.NoError(t, err)
	require.Empty(t, r.state("entity|mast|six"))
	r.put(lowOut)
	r.read("x", "0.2 entity Mast six")
	r.read("y", docs[3]) // it was pruned too, while it waited; before that a rejection of it was taken back
	r.through()
	require.Equal(t, []string{"rejected", "pending"}, []string{r.state("entity|mast|six"), r.state("entity|mast|four")})

	// What a person approved is theirs, also where a record failed alone and waits.
	r.put("{}")
	r.read("p", "0.2 entity Tool awl")
	r.read("q", "0.2 entity To.ol awl")
	require.Equal(t, 1, decide("approve", "entity|tool|awl").Outcome.SkippedTotal)
	r.put(lowOut)
	r.through()
	require.Equal(t, []string{"approved", "pending"}, []string{r.record("p", "entity|tool|awl").State, r.record("q", "entity|tool|awl").State})
	require.Equal(t, 1, r.try(api.ReviewPolicy{}).People[api.PeopleDecided])

	// Nobody signs as the policy does.
	for _, actor := range []string{"policy", " Policy "} {
		_, err = r.desk.Decide(ctx, g, api.CandidatesDecide{Keys: []string{"entity|mast|four"}, Decision: "reject", Actor: actor})
		require.ErrorContains(t, err, "say who you are")
	}
	r.records()
}

func (r *room) record(doc, key string) (c store.CandidateRecord) {
	r.t.Helper()
	sn, err := r.st.Snapshot(g, 0)
	require.NoError(r.t, err)
	c, ok, err := sn.Candidate(fingerprint.DocumentID(doc), key)
	require.NoError(r.t, err)
	require.True(r.t, ok)
	require.NoError(r.t, sn.Close())
	return c
}

// What changes between the look and the decision is looked at again in the commit.
func TestLateChanges(t *testing.T) {
	for name, change := range map[string]func(r *room){
		"another record": func(r *room) { r.read("b", "0.9 entity Mast one") },
		"somebody decided": func(r *room) {
			_, err := r.desk.Decide(context.Background(), g, api.CandidatesDecide{Keys: []string{"entity|mast|one"}, Decision: "approve", Actor: "eva"})
			require.NoError(r.t, err)
		},
		"another policy": func(r *room) { r.put("{auto_reject: [{label: Y}]}") },
		"it went":        func(r *room) { r.read("a", "Person:Ada") },
		"somebody edits": func(r *room) {
			_, err := r.desk.Edit(context.Background(), g, api.ReviewEdit{ID: r.record("a", "entity|mast|one").ID, Set: map[string]any{"label": "Mast"}, Actor: "eva"})
			require.NoError(r.t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRoom(t)
			r.put(lowOut)
			r.read("a", "0.2 entity Mast one")
			once := true
			r.decides = func(api.CandidatesDecide) error {
				if once {
					once = false
					change(r)
				}
				return nil
			}
			r.through()
			require.False(t, once)
			require.NotEqual(t, "rejected", r.state("entity|mast|one"))
			require.Zero(t, count(r.states(), "rejected"))
		})
	}
}

// What is decided otherwise by then is decided so, and the reason names what decided.
func TestLateVerdicts(t *testing.T) {
	for _, c := range []struct {
		change       func(r *room)
		state, rules string
	}{
		{func(r *room) { r.read("a", "0.9 entity Saw one") }, "approved", "auto_accept[0] of policy 3"},
		{func(r *room) { r.read("a", "0.9 entity JUNK one", "0.2 entity Saw one") }, "rejected", "auto_reject[0] of policy 3"},
		{func(r *room) { r.put(strings.Replace(lowOut, `"3"`, `"4"`, 1)) }, "rejected", "auto_reject[0] of policy 4"},
		{func(r *room) { r.put(`{version: "5", auto_reject: [{label: X}, {kind: entity, max_confidence: 0.4}]}`) }, "rejected", "auto_reject[1] of policy 5"},
	} {
		r := newRoom(t)
		r.put(lowOut)
		r.read("a", "0.2 entity Saw one")
		once := true
		r.decides = func(api.CandidatesDecide) error {
			if once {
				once = false
				c.change(r)
			}
			return nil
		}
		r.through()
		require.Equal(t, c.state, r.state("entity|saw|one"))
		for _, a := range r.records() {
			if a.Key != "entity|saw|one" {
				continue
			}
			require.Contains(t, a.Reason, c.rules)
			require.Contains(t, a.Reason, fmt.Sprintf("%s[%d] of policy %s (%s)", a.Policy.Rules[0].List, a.Policy.Rules[0].Index, a.Policy.Version, a.Policy.Fingerprint))
		}
	}
}

// Entities are decided before what refers to them, whichever condition decides them.
func TestEntitiesFirst(t *testing.T) {
	r := newRoom(t)
	r.put("{auto_accept: [{kind: relation}, {kind: entity}]}")
	r.read("a", "Person:Ada", "0.9 relation OWNS Ada > saw", "0.9 entity Saw saw")
	r.through()
	require.Equal(t, []string{"entity|saw|saw approved", "relation|owns|ada|saw approved"}, r.states())
}

// A crash at any point repeats nothing: the store is that of a run without one.
func TestCrashes(t *testing.T) {
	fill := func(r *room) {
		r.read("a", "Person:Ada", "0.2 entity Mast a1", "0.2 entity Mast a2", "0.9 entity Saw s1", "0.9 relation OWNS Ada > s1", "0.9 entity JUNK j1", "0.6 entity Mast a3")
		r.read("b", "0.1 entity Mast a1", "0.9 entity Saw s2", "0.9 relation OWNS Ada > s2", "0.9 relation OWNS Ada > s1")
		r.put(lowOut)
	}
	whole := newRoom(t)
	fill(whole)
	whole.through()
	want := whole.states()
	require.Equal(t, 7, len(whole.records()), "%v", want)
	boom := errors.New("boom")
	for at, done := 0, false; !done; at++ {
		r := newRoom(t)
		fill(r)
		r.mu.Lock()
		f := r.of(g)
		r.mu.Unlock()
		requests := 0
		r.decides = func(api.CandidatesDecide) error {
			if requests++; requests == at+1 {
				return boom
			}
			return nil
		}
		var err error
		for more := true; more && err == nil; {
			_, more, err = r.step(t.Context(), g, f)
		}
		if done = err == nil; !done {
			require.ErrorIs(t, err, boom)
		}
		// The position of the last page is lost with the process, too.
		require.NoError(t, r.st.Delete(t.Context(), g, space, keyPosition))
		require.NoError(t, r.st.Close())
		r.decides = nil
		r.open()
		r.through()
		require.Equal(t, want, r.states(), "stopped before request %d", at)
		require.Len(t, r.records(), 7, "each key is decided once")
	}

	// The same page again: the request has the same id, and its stored answer.
	r := newRoom(t)
	fill(r)
	r.through()
	asked := r.asked
	require.NotEmpty(t, asked)
	again := position{Mark: NewRules(r.sch).mark, Seq: 2, All: true}
	_, err := r.Follower.batch(t.Context(), g, NewRules(r.sch), again, &batch{verdict: schema.VerdictReject, keys: asked[0].Keys})
	require.NoError(t, err)
	require.Equal(t, asked[0], r.asked[len(r.asked)-1])
	require.Len(t, r.records(), 7)
}

// Run decides what is there at its start and what comes, tries again after an error, and is waited for.
func TestRun(t *testing.T) {
	r := newRoom(t)
	r.put(lowOut)
	r.read("a", "0.2 entity Mast one")
	after := make(chan time.Time)
	f, err := New(Config{After: func(time.Duration) <-chan time.Time { return after }}, Deps{Store: r.st, Schemas: r, Desk: r})
	require.NoError(t, err)
	boom, failing := errors.New("boom"), make(chan bool, 1)
	failing <- true
	r.decides = func(api.CandidatesDecide) error {
		select {
		case <-failing:
			return boom
		default:
			return nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	require.ErrorIs(t, f.Wait(t.Context(), g, r.seq()), boom, "who waits is told")
	require.Equal(t, "pending", r.state("entity|mast|one"))
	after <- time.Now()
	f.mu.Lock()
	changed := f.of(g).changed
	stillFails := f.of(g).err != nil
	f.mu.Unlock()
	if stillFails {
		<-changed
	}
	require.NoError(t, f.Wait(t.Context(), g, 1))
	require.Equal(t, "rejected", r.state("entity|mast|one"))
	seq := r.read("b", "0.2 entity Mast two")
	f.Notify(g)
	require.NoError(t, f.Wait(t.Context(), g, seq))
	require.Equal(t, "rejected", r.state("entity|mast|two"))

	patient, give := context.WithCancel(t.Context())
	give()
	require.ErrorIs(t, f.Wait(patient, g, seq+100), context.Canceled)
	waits := make(chan error, 1)
	go func() { waits <- f.Wait(t.Context(), g, seq+100) }()
	cancel()
	require.NoError(t, <-ended)
	require.NoError(t, <-waits, "who waits is let go at the end")
	r.put("")
	require.NoError(t, f.Wait(t.Context(), g, seq+100), "a policy that decides nothing is not waited for")
}

// A graph whose policy decides nothing costs one look at a revision for each commit, whatever the commit brought.
func TestNoPolicyNoWork(t *testing.T) {
	r := newRoom(t)
	r.put("{manual: [{kind: entity}]}")
	r.through()
	r.mu.Lock()
	f := r.of(g)
	r.mu.Unlock()
	for _, n := range []int{1, 200} {
		var items []string
		for i := range n {
			items = append(items, fmt.Sprintf("0.2 entity Mast mast%d", i))
		}
		r.read(fmt.Sprint("d", n), items...)
		allocs := testing.AllocsPerRun(50, func() {
			_, more, err := r.step(context.Background(), g, f)
			if err != nil || more {
				panic("it worked")
			}
		})
		require.LessOrEqual(t, allocs, 2.0, "after a commit of %d candidates", n)
	}
	b, err := r.st.Get(g, space, keyPosition)
	require.NoError(t, err)
	require.Nil(t, b)
	require.Empty(t, r.asked)
}
