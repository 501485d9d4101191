package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// historySchemas are what a graph's schema changes to and fro between. What changes: nothing that is extracted or stored but the
// name; a description; a relation's pattern; a rule.
var historySchemas = []struct {
	change   string
	from, to string
}{
	{change: "as it is"},
	{"name", "name: corpus", "name: renamed"},
	{"description", "Employment.", "Whom a person works for."},
	{"relation", `"Agent->Organization|Software"`, `"Person->Organization"`},
	{"rule", `["works for", "worked for", "joined"]`, `["works for", "joined"]`},
}

func historySchema(i int) string {
	s := historySchemas[i]
	if s.from == "" {
		return corpusSchemaText()
	}
	return strings.Replace(corpusSchemaText(), s.from, s.to, 1)
}

var historySizes = []string{"40", "64"}

// book is the model of a graph: which keys are open with which text, and where each key's newest version or tombstone stands.
type book struct {
	open  map[string]entry
	marks map[string]graph.Order
	// schema and size are the active ones.
	schema, size int
}

// entry is an open document and what it was read under.
type entry struct {
	paper
	schema, size int
}

func newBook() *book {
	return &book{open: map[string]entry{}, marks: map[string]graph.Order{}}
}

// change is one document event of a history.
type change struct {
	op     string // add, update, delete
	docs   []paper
	file   bool // the documents are the rows of one file
	force  bool
	extra  map[string]any // more fields of the event
	schema int            // when the event was accepted
	size   int
}

func (c change) event() map[string]any {
	e := map[string]any{"op": c.op}
	if c.op == "delete" {
		var keys []map[string]any
		for _, d := range c.docs {
			k := map[string]any{"key": d.Key}
			if d.SourceUpdatedAt != "" {
				k["source_updated_at"] = d.SourceUpdatedAt
			}
			keys = append(keys, k)
		}
		e["documents"] = keys
	} else if c.file {
		e["documents"] = []paper{corpus{rows: c.docs}.file()}
	} else {
		e["documents"] = c.docs
	}
	if c.force {
		e["force"] = true
	}
	maps.Copy(e, c.extra)
	return e
}

func (c change) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s file=%v force=%v %v schema=%s size=%s", c.op, c.file, c.force, c.extra, historySchemas[c.schema].change, historySizes[c.size])
	for _, d := range c.docs {
		fmt.Fprintf(&b, " %s(%.20q %s %q %s)", d.Key, d.Text, d.PublishedAt, d.Title, d.SourceUpdatedAt)
	}
	return b.String()
}

// orderOf ranks a document of the event at a place in the stream, with a clock that stands at the year 2100: what generated documents
// give as their source's time lies before it or, now and then, after.
func orderOf(d paper, seq uint64) graph.Order {
	at := time.Date(2100, 1, 1, 0, 0, 0, int(seq), time.UTC)
	if d.SourceUpdatedAt != "" {
		var err error
		if at, err = time.Parse("2006-01-02", d.SourceUpdatedAt); err != nil {
			panic(err)
		}
	}
	return graph.Order{Time: at.UnixNano(), Seq: seq}
}

func contentHash(text string) string { return fingerprint.ContentHash(fingerprint.Normalize(text)) }

// apply takes a committed event into the book and predicts its counts.
func (b *book) apply(c change, seq uint64) api.DocumentCounts {
	n := api.DocumentCounts{Total: len(c.docs)}
	for _, d := range c.docs {
		o := orderOf(d, seq)
		if mark, ok := b.marks[d.Key]; ok && o.Before(mark) {
			n.Superseded++
			continue
		}
		b.marks[d.Key] = o
		was, open := b.open[d.Key]
		if c.op == "delete" {
			delete(b.open, d.Key)
			if open {
				n.Deleted++
			} else {
				n.Unchanged++
			}
			continue
		}
		now := entry{d, c.schema, c.size}
		b.open[d.Key] = now
		switch {
		case !open:
			n.Added++
		case c.force || was.fingerprint() != now.fingerprint():
			n.Updated++
		default:
			n.Unchanged++
		}
	}
	return n
}

// fingerprint differs when anything differs that makes a document be read or described again.
func (e entry) fingerprint() string {
	schema := e.schema
	if historySchemas[schema].change == "name" {
		schema = 0
	}
	m := graph.Meta{Title: e.Title, PublishedAt: e.PublishedAt, Metadata: e.Metadata, Scope: e.Scope}
	return fmt.Sprintf("%s %d %d %s", contentHash(e.Text), schema, e.size, m.MetaHash())
}

// keys of open documents, sorted.
func (b *book) keys() []string { return slices.Sorted(maps.Keys(b.open)) }

// historian makes random histories of one graph.
type historian struct {
	t    *testing.T
	f    *fleet
	g    string
	r    *rand.Rand
	w    writer
	book *book
	// log is what happened, for the failure message.
	log []string
	// seen is what the graph was at the sequences at which it was checked.
	seen []moment
}

// moment is a graph at a sequence: under which active schema, and its export.
type moment struct {
	seq    uint64
	schema int
	export string
}

func newHistorian(t *testing.T, f *fleet, g string, seed uint64) *historian {
	h := &historian{t: t, f: f, g: g, r: random(seed, "history "+g), w: writer{random(seed, "texts "+g)}, book: newBook()}
	f.putSchema(g, historySchema(0))
	f.putSettings(g, map[string]string{"chunker.size": historySizes[0]})
	return h
}

func (h *historian) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

// key is one of a few keys; a key is always of one format.
func (h *historian) key() string {
	if h.r.IntN(4) == 0 {
		return h.row()
	}
	return fmt.Sprintf("k%d", h.r.IntN(12))
}

// row is one of a few keys that a file's rows have.
func (h *historian) row() string { return fmt.Sprintf("rows.jsonl#r%d", h.r.IntN(6)) }

// formatOf is a key's format: rows of a file have none of their own.
func formatOf(key string) string {
	switch {
	case key[0] != 'k':
		return ""
	case key[len(key)-1]%2 == 0:
		return "markdown"
	default:
		return "text"
	}
}

// write is a document for a key: new, or the stored one again, or that with other dates and metadata.
func (h *historian) write(key string) paper {
	fresh := h.w.paper(key, formatOf(key) == "markdown")
	fresh.Format = formatOf(key)
	was, ok := h.book.open[key]
	if !ok {
		return h.dated(fresh)
	}
	d := was.paper
	d.SourceUpdatedAt = ""
	switch h.r.IntN(5) {
	case 0: // the same
	case 1: // only described anew
		d.Title, d.PublishedAt, d.Metadata, d.Scope = fresh.Title, fresh.PublishedAt, fresh.Metadata, fresh.Scope
	case 2: // a sentence more, so that chunks and facts are shared with the old version
		d.Text += " " + h.w.sentence()
	default:
		d = fresh
	}
	return h.dated(d)
}

// dated gives some documents a time of their source: mostly past, so that they are older than what events without one said.
func (h *historian) dated(d paper) paper {
	switch h.r.IntN(12) {
	case 0, 1:
		d.SourceUpdatedAt = fmt.Sprintf("%d-01-01", 1990+h.r.IntN(30))
	case 2:
		d.SourceUpdatedAt = fmt.Sprintf("%d-01-01", 2150+h.r.IntN(30))
	}
	return d
}

// some are n distinct keys.
func (h *historian) some(n int, key func() string) []string {
	keys := map[string]bool{}
	for len(keys) < n {
		keys[key()] = true
	}
	out := slices.Collect(maps.Keys(keys))
	sort.Strings(out)
	h.r.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (h *historian) change() change {
	c := change{op: "add", schema: h.book.schema, size: h.book.size, extra: map[string]any{}}
	n := 1 + h.r.IntN(4)
	switch h.r.IntN(8) {
	case 0, 1:
		c.op = "delete"
		for _, k := range h.some(n, h.key) {
			c.docs = append(c.docs, h.dated(paper{Key: k}))
		}
		return c
	case 2:
		c.op, n = "update", 1
	case 3:
		c.force = true
	}
	key := h.key
	if c.file = c.op == "add" && h.r.IntN(4) == 0; c.file {
		key = h.row
	}
	for _, k := range h.some(n, key) {
		c.docs = append(c.docs, h.write(k))
	}
	switch h.r.IntN(6) {
	case 0:
		c.extra["atomic"] = "document"
	case 1:
		c.extra["error_policy"] = "skip"
	}
	return c
}

func (h *historian) publish(c change) (job string, seq uint64) {
	body, err := json.Marshal(c.event())
	require.NoError(h.t, err)
	seq, err = h.f.conn.Ingest(h.t.Context(), h.g, body, nil)
	require.NoError(h.t, err)
	return fmt.Sprintf("j%d", seq), seq
}

// step does one random thing to the graph and to the book.
func (h *historian) step() {
	switch h.r.IntN(16) {
	case 0:
		h.book.schema = h.r.IntN(len(historySchemas))
		h.note("schema: %s", historySchemas[h.book.schema].change)
		h.f.putSchema(h.g, historySchema(h.book.schema))
	case 1:
		h.book.size = h.r.IntN(len(historySizes))
		h.note("size: %s", historySizes[h.book.size])
		h.f.putSettings(h.g, map[string]string{"chunker.size": historySizes[h.book.size]})
	case 2:
		if h.r.IntN(2) == 0 {
			h.cancelHeld()
		} else {
			h.acceptHeld()
		}
	case 3:
		h.cancelRunning()
	case 4:
		h.failing()
	case 5, 6:
		h.together()
	case 7:
		h.note("restart of the committer")
		h.f.restart("committer")
	default:
		c := h.change()
		job, seq := h.publish(c)
		h.note("%s: %s", job, c)
		s := h.ended(job, api.JobCommitted)
		require.Equal(h.t, h.book.apply(c, seq), s.Documents, h.story())
	}
}

// ended waits for the end of a job.
func (h *historian) ended(job, state string) api.JobStatus {
	h.t.Helper()
	s := h.f.settled(h.g, job)
	require.Equal(h.t, state, s.State, "job %s: %s\n%s", job, s.Reason, h.story())
	return s
}

// cancelHeld takes back a job that is complete and waits for a person.
func (h *historian) cancelHeld() {
	c := h.change()
	delete(c.extra, "atomic")
	c.extra["hold"] = true
	job, _ := h.publish(c)
	h.note("%s, held and cancelled: %s", job, c)
	h.f.await(h.g, job, api.JobHeld)
	s := ask[api.JobStatus](h.f.cluster, h.g, "jobs.cancel", api.JobCancel{Job: job})
	require.Equal(h.t, api.JobRolledBack, s.State)
}

// acceptHeld lets a job commit that waited while its documents moved: what it decided then is decided anew where that matters.
func (h *historian) acceptHeld() {
	held := h.change()
	delete(held.extra, "atomic")
	held.extra["hold"] = true
	job, seq := h.publish(held)
	h.f.await(h.g, job, api.JobHeld)
	other := h.change()
	for i := range other.docs {
		if i < len(held.docs) && !other.file && !held.file && !slices.ContainsFunc(other.docs, func(d paper) bool { return d.Key == held.docs[i].Key }) {
			other.docs[i].Key, other.docs[i].Format = held.docs[i].Key, formatOf(held.docs[i].Key)
		}
	}
	job2, seq2 := h.publish(other)
	h.note("%s, held: %s", job, held)
	h.note("%s, meanwhile: %s", job2, other)
	h.ended(job2, api.JobCommitted)
	h.note("%s accepted", job)
	s := h.f.cluster.accept(h.g, job)
	require.Equal(h.t, api.JobCommitted, s.State, h.story())
	h.book.apply(held, seq)
	h.book.apply(other, seq2)
}

// cancelRunning takes back a job that runs: it may have committed before, and that counts.
func (h *historian) cancelRunning() {
	c := h.change()
	delete(c.extra, "atomic")
	job, seq := h.publish(c)
	err := h.f.conn.Request(h.t.Context(), "factmill."+h.g+".jobs.cancel", api.JobCancel{Job: job}, nil)
	s := h.f.settled(h.g, job)
	h.note("%s, cancelled while it runs (%v), %s: %s", job, err, s.State, c)
	if s.State == api.JobCommitted {
		require.Equal(h.t, h.book.apply(c, seq), s.Documents, h.story())
	}
}

// failing is a job with a document that cannot be read: nothing of it commits, or all the others do.
func (h *historian) failing() {
	c := h.change()
	if c.op == "delete" || c.file || len(c.docs) < 2 {
		return
	}
	bad := h.r.IntN(len(c.docs))
	delete(c.extra, "atomic")
	broken := c
	broken.docs = slices.Clone(c.docs)
	broken.docs[bad].Text, broken.docs[bad].Format = "{", "json"
	policy := []string{"raise", "skip", "quarantine"}[h.r.IntN(3)]
	broken.extra["error_policy"] = policy
	job, seq := h.publish(broken)
	h.note("%s, %s cannot be read: %s", job, broken.docs[bad].Key, broken)
	if policy == "raise" {
		h.ended(job, api.JobRolledBack)
		return
	}
	s := h.ended(job, api.JobCommitted)
	c.docs = slices.Delete(slices.Clone(c.docs), bad, bad+1)
	want := h.book.apply(c, seq)
	want.Total++
	if policy == "skip" {
		want.Skipped = 1
	} else {
		want.Quarantined = 1
	}
	require.Equal(h.t, want, s.Documents, h.story())
}

// together lets jobs run at once, over the same keys: whatever ends first, the newest version of each key stands.
func (h *historian) together() {
	n := 2 + h.r.IntN(3)
	cs, jobs, seqs := make([]change, n), make([]string, n), make([]uint64, n)
	for i := range cs {
		cs[i] = h.change()
		jobs[i], seqs[i] = h.publish(cs[i])
		h.note("%s, at once with others: %s", jobs[i], cs[i])
	}
	for i := range cs {
		s := h.ended(jobs[i], api.JobCommitted)
		require.Equal(h.t, len(cs[i].docs), s.Documents.Added+s.Documents.Updated+s.Documents.Unchanged+s.Documents.Deleted+s.Documents.Superseded, h.story())
	}
	for i := range cs {
		h.book.apply(cs[i], seqs[i])
	}
}

func (h *historian) story() string { return "graph " + h.g + "\n" + strings.Join(h.log, "\n") }

// check compares the graph with the book and with a graph that is built from what is left, and keeps the moment.
func (h *historian) check(name string) {
	h.t.Helper()
	got := h.f.exported(h.g, 0)
	require.Equal(h.t, h.book.keys(), exportedKeys(h.t, got), h.story())
	for key, e := range h.book.open {
		d := h.f.documentAt(h.g, map[string]any{"key": key, "text": true})
		require.Equal(h.t, "open", d.State, h.story())
		require.Equal(h.t, fingerprint.Normalize(e.Text), d.Text, h.story())
		require.Equal(h.t, e.PublishedAt, d.Document.PublishedAt, h.story())
	}
	fresh := h.build(name)
	require.Equal(h.t, h.f.exported(fresh, 0), got, "%s, built anew as %s", h.story(), fresh)
	h.f.sound(h.g)
	stats := ask[api.StatsReply](h.f.cluster, h.g, "query.stats", nil)
	h.seen = append(h.seen, moment{stats.Seq, h.book.schema, got})
}

// build makes a graph of the documents that are left, each under the schema and settings that it was read under.
func (h *historian) build(name string) string {
	type context struct{ schema, size int }
	groups := map[context][]paper{}
	for _, k := range h.book.keys() {
		e := h.book.open[k]
		d := e.paper
		d.SourceUpdatedAt = ""
		at := context{e.schema, e.size}
		groups[at] = append(groups[at], d)
	}
	g := h.g + "-" + name
	for at, docs := range groups {
		h.f.putSchema(g, historySchema(at.schema))
		h.f.putSettings(g, map[string]string{"chunker.size": historySizes[at.size]})
		h.f.run(g, map[string]any{"documents": docs})
	}
	h.f.putSchema(g, historySchema(h.book.schema))
	return g
}

// looksBack reads every moment again: what was stays readable.
func (h *historian) looksBack() {
	h.t.Helper()
	for _, m := range h.seen {
		h.f.putSchema(h.g, historySchema(m.schema)) // which value of a property shows follows the active schema
		if m.seq > 0 {
			require.Equal(h.t, m.export, h.f.exported(h.g, m.seq), "as of %d: %s", m.seq, h.story())
		}
	}
	h.f.putSchema(h.g, historySchema(h.book.schema))
}

// exportedKeys are the documents of an export.
func exportedKeys(t testing.TB, export string) []string {
	var keys []string
	for line := range strings.Lines(export) {
		var row struct{ Kind, Key string }
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		if row.Kind == "document" {
			keys = append(keys, row.Key)
		}
	}
	sort.Strings(keys)
	return keys
}

// TestHistoryEqualsAFreshBuild: after any history the graph is what a build from the documents that are left makes; without any
// document it is empty; and what it was can still be read.
func TestHistoryEqualsAFreshBuild(t *testing.T) {
	const steps, every = 60, 6
	for _, seed := range seeds(t, 2) {
		f := newFleet(t, fleetOptions{Replicas: 2, AckWait: 300 * time.Millisecond})
		h := newHistorian(t, f, "h", seed)
		var p *faults
		if seed%2 == 0 { // half of the histories are disturbed all the time
			p = f.plague(seed, 400*time.Millisecond, "committer")
		}
		t.Logf("seed %d, disturbed: %v", seed, p != nil)
		for i := range steps {
			h.step()
			if i%every == every-1 {
				h.check(fmt.Sprintf("s%d", i))
			}
		}
		if p != nil {
			p.cure()
			h.note("disturbed by %s", p)
		}
		left := exportedKeys(t, f.exported("h", 0))
		h.looksBack()
		h.emptied()
		h.looksBack()
		f.noDeadLetters()
		t.Logf("seed %d: %d things done, %d documents left, looked back at %d moments", seed, len(h.log), len(left), len(h.seen))
		f.stopAll()
	}
}

// emptied deletes everything, and adds and deletes it once more.
func (h *historian) emptied() {
	h.t.Helper()
	all := h.book.open
	for range 2 {
		keys := h.book.keys()
		h.r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		for len(keys) > 0 {
			n := 1 + h.r.IntN(len(keys))
			c := change{op: "delete", schema: h.book.schema, size: h.book.size}
			for _, k := range keys[:n] {
				c.docs = append(c.docs, paper{Key: k, SourceUpdatedAt: "2190-01-01"})
			}
			job, seq := h.publish(c)
			h.note("%s: %s", job, c)
			s := h.ended(job, api.JobCommitted)
			require.Equal(h.t, h.book.apply(c, seq), s.Documents, h.story())
			require.Equal(h.t, n, s.Documents.Deleted, h.story())
			keys = keys[n:]
		}
		require.Empty(h.t, h.f.exported(h.g, 0), h.story())
		s := ask[api.StatsReply](h.f.cluster, h.g, "query.stats", nil)
		require.Zero(h.t, s.Documents+s.Chunks+s.Mentions+s.Entities+s.Relations+s.Candidates+s.Matches, "%+v", s)
		require.Zero(h.t, ask[api.ReviewListReply](h.f.cluster, h.g, "review.list", map[string]any{}).Total)
		h.f.sound(h.g)

		c := change{op: "add", schema: h.book.schema, size: h.book.size}
		for _, e := range all {
			d := e.paper
			d.SourceUpdatedAt = "2190-01-01"
			c.docs = append(c.docs, d)
		}
		if len(c.docs) == 0 {
			return
		}
		job, seq := h.publish(c)
		h.note("%s: %s", job, c)
		s2 := h.ended(job, api.JobCommitted)
		require.Equal(h.t, h.book.apply(c, seq), s2.Documents, h.story())
		h.check(fmt.Sprintf("again%d", seq))
	}
}
