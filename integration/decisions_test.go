package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schemacache"
	"github.com/factmill/factmill/services/extractor"
)

// staff is a small schema; its phrases make facts out of plain sentences.
const staff = `
name: staff
entities:
  Person: {description: A human being., properties: {born: date}}
  Organization: {description: A company.}
relations:
  WORKS_FOR: {patterns: ["Person->Organization"], description: Employment.}
rules:
  entities:
    Person: {names: [Alice, Bob, Carol, Dan]}
    Organization: {names: [Acme, Orva]}
  relations:
    WORKS_FOR: {phrases: ["works at", "works for"]}
`

const (
	alice = "Alice works at Acme."
	bob   = "Bob works at Acme."
	carol = "Carol works at Orva."
)

// edges lists the entities of a graph by name, with 0, and its relations as "source target", with the number of pieces of evidence.
func (f *fleet) edges(g string) map[string]int {
	f.t.Helper()
	names := map[string]string{}
	out := map[string]int{}
	for line := range strings.Lines(f.exported(g, 0)) {
		var row struct {
			Kind, ID, Name, Source, Target string
			Evidence                       []json.RawMessage
		}
		require.NoError(f.t, json.Unmarshal([]byte(line), &row))
		switch row.Kind {
		case "entity":
			names[row.ID] = row.Name
			out[row.Name] += 0
		case "relation":
			out[names[row.Source]+" "+names[row.Target]] = len(row.Evidence)
		}
	}
	return out
}

func chunkIDsOf(d api.DocumentReply) []string {
	var ids []string
	for _, c := range d.Chunks {
		ids = append(ids, c.ID)
	}
	return ids
}

// TestDecisionTable is the table of what is done to a document, with what is read again and what stays.
func TestDecisionTable(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	text := alice + "\n\n" + bob + "\n\n" + strings.Repeat(carol+" ", 20)
	base := map[string]any{"key": "k", "text": text, "published_at": "2020-01-01"}
	for i, c := range []struct {
		name   string
		before func(g string)
		event  map[string]any
		want   graph.Decision
	}{
		{"same text", nil, nil, graph.NoOp},
		{"only the schema's name", func(g string) { f.putSchema(g, strings.Replace(staff, "name: staff", "name: other", 1)) }, nil, graph.NoOp},
		{"line ends and a byte order mark", nil, map[string]any{"text": "\ufeff" + strings.ReplaceAll(text, "\n", "\r\n")}, graph.NoOp},
		{"published_at", nil, map[string]any{"published_at": "2021-01-01"}, graph.MetadataOnly},
		{"content_date", nil, map[string]any{"content_date": "2021"}, graph.MetadataOnly},
		{"title", nil, map[string]any{"title": "T"}, graph.MetadataOnly},
		{"metadata", nil, map[string]any{"metadata": map[string]any{"a": 1}}, graph.MetadataOnly},
		{"scope", nil, map[string]any{"scope": "staff"}, graph.MetadataOnly},
		{"a description of a type", func(g string) { f.putSchema(g, strings.Replace(staff, "A company.", "A firm.", 1)) }, nil, graph.InPlace},
		{"a rule", func(g string) { f.putSchema(g, strings.Replace(staff, `"works for"`, `"serves"`, 1)) }, nil, graph.InPlace},
		{"a cut", func(g string) { f.putSettings(g, map[string]string{"extractor.relation_cut": "0.6"}) }, nil, graph.InPlace},
		{"force", nil, map[string]any{"force": true}, graph.InPlace},
		{"force and dates", nil, map[string]any{"force": true, "published_at": "2022"}, graph.InPlace},
		{"a description and dates", func(g string) { f.putSchema(g, strings.Replace(staff, "A company.", "A firm.", 1)) },
			map[string]any{"published_at": "2022"}, graph.InPlace},
		{"text", nil, map[string]any{"text": text + " Dan works at Orva."}, graph.NewVersion},
		{"force and text", nil, map[string]any{"force": true, "text": text + " Dan works at Orva."}, graph.NewVersion},
		{"chunk size", func(g string) { f.putSettings(g, map[string]string{"chunker.size": "32"}) }, nil, graph.NewVersion},
		{"a property of the schema", func(g string) { f.putSchema(g, strings.Replace(staff, "born: date", "born: integer", 1)) }, nil, graph.NewVersion},
	} {
		g := fmt.Sprintf("g%d", i)
		f.putSchema(g, staff)
		f.putSettings(g, map[string]string{"chunker.size": "24"})
		f.run(g, base)
		was, stored := f.documentAt(g, map[string]any{"key": "k"}), f.stored(g, "k")
		require.Greater(t, len(was.Chunks), 2)
		if c.before != nil {
			c.before(g)
		}
		event := maps.Clone(base)
		maps.Copy(event, c.event)
		read := f.extracted()
		s := f.run(g, event)
		now, after := f.documentAt(g, map[string]any{"key": "k", "text": true}), f.stored(g, "k")

		want := api.DocumentCounts{Total: 1, Updated: 1}
		if c.want == graph.NoOp {
			want = api.DocumentCounts{Total: 1, Unchanged: 1}
			require.Equal(t, stored, after, c.name)
			require.Equal(t, 1, s.Stages.Ingestion.Unchanged, c.name)
		} else {
			require.Equal(t, stored.Revision+1, after.Revision, c.name)
		}
		require.Equal(t, want, s.Documents, c.name)
		switch c.want {
		case graph.NoOp, graph.MetadataOnly:
			require.Equal(t, read, f.extracted(), "%s: the extractor was called", c.name)
			require.Equal(t, stored.ExtractionFP, after.ExtractionFP, c.name)
		default:
			require.Equal(t, read+len(now.Chunks), f.extracted(), c.name)
		}
		if c.want == graph.NewVersion {
			require.Equal(t, 2, now.Version, c.name)
			require.Len(t, now.Versions, 2, c.name)
		} else {
			require.Equal(t, 1, now.Version, c.name)
			require.Equal(t, chunkIDsOf(was), chunkIDsOf(now), c.name)
		}
		if c.want == graph.MetadataOnly {
			require.NotEqual(t, stored.MetaHash, after.MetaHash, c.name)
		}
		// What was done is done: the same event again finds nothing to do, unless it forces.
		delete(event, "force")
		require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, f.run(g, event).Documents, c.name)
		f.sound(g)
	}
}

// TestFailedJobLeavesStoredValues: documents, fingerprints, candidates and order stay as they were.
func TestFailedJobLeavesStoredValues(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"key": "k", "text": alice + " Perhaps Bob will work for Orva.", "published_at": "2020"})
	stored, export := f.stored("g", "k"), f.exported("g", 0)
	require.Contains(t, export, `"kind":"candidate"`)
	f.putSchema("g", strings.Replace(staff, "born: date", "born: integer", 1))
	for _, text := range []string{alice + " Perhaps Bob will work for Orva.", carol} {
		s := f.await("g", f.publish("g", map[string]any{"documents": []map[string]any{
			{"key": "k", "text": text, "published_at": "2021"}, {"key": "bad", "text": "{", "format": "json"},
		}}), api.JobRolledBack)
		require.Contains(t, s.Reason, "bad_json")
		require.Equal(t, stored, f.stored("g", "k"))
		require.Equal(t, export, f.exported("g", 0))
	}
	f.sound("g")
	// And nothing of the failed ones is in the way.
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, f.run("g", map[string]any{"key": "k", "text": carol, "published_at": "2021"}).Documents)
	require.Equal(t, map[string]int{"Carol": 0, "Orva": 0, "Carol Orva": 1}, f.edges("g"))
}

// TestDeletesLeaveWhatOthersState: deleting a document takes what it alone stated, and evidence that it gave.
func TestDeletesLeaveWhatOthersState(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"key": "a", "text": alice})
	first := f.exported("g", 0)
	f.run("g", map[string]any{"key": "b", "text": bob})
	require.Equal(t, map[string]int{"Alice": 0, "Bob": 0, "Acme": 0, "Alice Acme": 1, "Bob Acme": 1}, f.edges("g"))
	s := f.run("g", map[string]any{"op": "delete", "key": "a"})
	require.Equal(t, api.DocumentCounts{Total: 1, Deleted: 1}, s.Documents)
	require.Equal(t, []string{`"Alice" WORKS_FOR "Acme"`, `Person "Alice"`}, s.Removed)
	require.Equal(t, map[string]int{"Bob": 0, "Acme": 0, "Bob Acme": 1}, f.edges("g"))
	acme := ask[api.EntityReply](f.cluster, "g", "query.entity", map[string]any{"type": "Organization", "name": "Acme"})
	require.Len(t, acme.Entity.Mentions, 1)
	require.Equal(t, "b", acme.Entity.Mentions[0].Document)
	f.sound("g")
	f.run("g", map[string]any{"op": "delete", "key": "b"})
	require.Empty(t, f.exported("g", 0))
	f.sound("g")
	f.run("g", map[string]any{"key": "a", "text": alice})
	require.Equal(t, first, f.exported("g", 0), "as at first")
	require.Equal(t, 2, f.documentAt("g", map[string]any{"key": "a"}).Version)

	s = f.run("g", map[string]any{"op": "delete", "key": "never"})
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, s.Documents)
	require.Equal(t, "unknown_key", s.Stages.Ingestion.List[0].Code)
	require.Equal(t, first, f.exported("g", 0))
}

// TestOlderVersionsEndSuperseded: a version older than what stands, or than the tombstone, changes nothing.
func TestOlderVersionsEndSuperseded(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	put := func(op, key, text, at string) api.DocumentCounts {
		e := map[string]any{"op": op, "key": key, "source_updated_at": at}
		if text != "" {
			e["text"] = text
		}
		return f.run("g", e).Documents
	}
	superseded := api.DocumentCounts{Total: 1, Superseded: 1}
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, put("add", "k", alice, "2024-03-01"))
	require.Equal(t, superseded, put("add", "k", bob, "2024-02-01"))
	require.Equal(t, superseded, put("delete", "k", "", "2024-02-01T12:00:00Z"))
	require.Equal(t, map[string]int{"Alice": 0, "Acme": 0, "Alice Acme": 1}, f.edges("g"))
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, put("add", "k", alice, "2024-05-01"), "unchanged, and newer")
	require.Equal(t, superseded, put("add", "k", bob, "2024-04-01"), "older than the unchanged version")
	require.Equal(t, superseded, put("add", "k", alice, "2024-04-01"), "the same text, and older")
	require.Equal(t, api.DocumentCounts{Total: 1, Deleted: 1}, put("delete", "k", "", "2024-06-01"))
	require.Equal(t, superseded, put("add", "k", bob, "2024-05-20"), "older than the delete")
	require.Empty(t, f.exported("g", 0))
	require.Equal(t, superseded, put("delete", "k", "", "2024-05-21"), "an older delete of what is deleted")
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, put("delete", "k", "", "2024-07-01"), "deleted again, later")
	require.Equal(t, superseded, put("add", "k", bob, "2024-06-15"), "older than the second delete")
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, put("add", "k", bob, "2024-07-02"))

	// The tombstone of a key that was never there counts, by its source's time.
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, put("delete", "late", "", "2024-02-01"))
	require.Equal(t, superseded, put("add", "late", carol, "2024-01-01"))
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, put("add", "late", carol, "2024-02-02"))
	f.sound("g")

	// Placeholders for "always" and "never" are times before and after all others.
	require.Equal(t, api.DocumentCounts{Total: 1, Added: 1}, put("add", "p", alice, "2024-01-01"))
	require.Equal(t, superseded, put("add", "p", bob, "0001-01-01"))
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, put("add", "p", carol, "9999-12-31"))
	require.Equal(t, superseded, put("add", "p", bob, "2200-01-01"))
	require.Equal(t, api.DocumentCounts{Total: 1, Deleted: 1}, put("delete", "p", "", "9999-12-31"))

	// Events without a time of their source are ordered by the stream, after any that lies in the past.
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, f.run("g", map[string]any{"key": "k", "text": alice}).Documents)
	require.Equal(t, superseded, put("add", "k", bob, "2025-01-01"))
}

// TestTwoVersionsAtOnce: versions 1 and 2 of a key, in two jobs that end in either order, one of them without anything to do or
// held: the newest version stands, the other document says superseded, and no job waits for the other.
func TestTwoVersionsAtOnce(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	for i, c := range []struct {
		stored, one, two string // texts
		newFirst         bool   // the newer one commits first
		oneEnds, twoEnds api.DocumentCounts
	}{
		{"", alice, bob, false, api.DocumentCounts{Added: 1}, api.DocumentCounts{Updated: 1}},
		{"", alice, bob, true, api.DocumentCounts{Superseded: 1}, api.DocumentCounts{Added: 1}},
		{alice, bob, carol, false, api.DocumentCounts{Updated: 1}, api.DocumentCounts{Updated: 1}},
		{alice, bob, carol, true, api.DocumentCounts{Superseded: 1}, api.DocumentCounts{Updated: 1}},
		// The newer one finds the stored text and has nothing to do, before the older one changes it or after.
		{alice, bob, alice, false, api.DocumentCounts{Updated: 1}, api.DocumentCounts{Updated: 1}},
		{alice, bob, alice, true, api.DocumentCounts{Superseded: 1}, api.DocumentCounts{Unchanged: 1}},
		// The older one has nothing to do.
		{alice, alice, bob, false, api.DocumentCounts{Unchanged: 1}, api.DocumentCounts{Updated: 1}},
		{alice, alice, bob, true, api.DocumentCounts{Superseded: 1}, api.DocumentCounts{Updated: 1}},
	} {
		g := fmt.Sprintf("g%d", i)
		f.putSchema(g, staff)
		if c.stored != "" {
			f.run(g, map[string]any{"key": "k", "text": c.stored})
		}
		job := map[bool]string{}
		for _, newer := range []bool{false, true} {
			text := c.one
			if newer {
				text = c.two
			}
			// Both are held, so that both decide before either commits.
			job[newer] = f.publish(g, map[string]any{"key": "k", "text": text, "hold": true})
			f.await(g, job[newer], api.JobHeld)
		}
		ends := map[bool]api.DocumentCounts{}
		for _, newer := range []bool{c.newFirst, !c.newFirst} {
			s := f.cluster.accept(g, job[newer])
			require.Equal(t, api.JobCommitted, s.State, "%+v", c)
			require.Equal(t, 1, s.Documents.Total)
			s.Documents.Total = 0
			ends[newer] = s.Documents
		}
		require.Equal(t, c.oneEnds, ends[false], "the older of %+v", c)
		require.Equal(t, c.twoEnds, ends[true], "the newer of %+v", c)
		d := f.documentAt(g, map[string]any{"key": "k", "text": true})
		require.Equal(t, c.two, d.Text, "%+v", c)
		f.sound(g)
	}
}

// TestHeldJobHoldsNobodyUp: while a job is held another one with the same key commits; the held one is then cancelled.
func TestHeldJobHoldsNobodyUp(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	f.run("g", map[string]any{"key": "k", "text": alice})
	held := f.publish("g", map[string]any{"key": "k", "text": bob, "hold": true})
	f.await("g", held, api.JobHeld)
	s := f.run("g", map[string]any{"key": "k", "text": carol})
	require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, s.Documents)
	f.restart("committer")
	f.await("g", held, api.JobHeld)
	s = ask[api.JobStatus](f.cluster, "g", "jobs.cancel", api.JobCancel{Job: held, Reason: "not needed"})
	require.Equal(t, api.JobRolledBack, s.State)
	require.Equal(t, map[string]int{"Carol": 0, "Orva": 0, "Carol Orva": 1}, f.edges("g"))
	f.sound("g")
}

// TestHoldComesBeforeEveryDocument: documents that commit on their own wait for the person too.
func TestHoldComesBeforeEveryDocument(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	held := f.publish("g", map[string]any{"documents": []map[string]any{{"key": "k", "text": alice}, {"key": "x", "text": bob}}, "hold": true, "atomic": "document"})
	f.await("g", held, api.JobHeld)
	require.Empty(t, f.edges("g"))
	s := f.cluster.accept("g", held)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 2}, s.Documents)
	require.Equal(t, 1, f.edges("g")["Alice Acme"])
	f.sound("g")
}

// TestSupersedeTakesDocuments: an uncommitted job gives up what a later one takes, commits the rest, and does so even when the later
// one is taken back afterwards.
func TestSupersedeTakesDocuments(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	first := f.publish("g", map[string]any{"documents": []map[string]any{{"key": "k", "text": alice}, {"key": "x", "text": bob}}, "hold": true})
	f.await("g", first, api.JobHeld)
	second := f.publish("g", map[string]any{"key": "k", "text": carol, "supersede": true, "hold": true})
	f.await("g", second, api.JobHeld)
	f.restart("committer")
	require.Equal(t, api.JobRolledBack, ask[api.JobStatus](f.cluster, "g", "jobs.cancel", api.JobCancel{Job: second}).State)
	s := f.cluster.accept("g", first)
	require.Equal(t, api.DocumentCounts{Total: 2, Added: 1, Superseded: 1}, s.Documents)
	require.Equal(t, map[string]int{"Bob": 0, "Acme": 0, "Bob Acme": 1}, f.edges("g"))
	f.sound("g")
}

// TestStaleDecisionsAreDecidedAnew: a job decides that nothing, or only the metadata, changed; before it commits an older change of
// the document does. The loader then fetches that one document again, wherever it came from.
func TestStaleDecisionsAreDecidedAnew(t *testing.T) {
	dir := t.TempDir()
	f := newFleet(t, fleetOptions{Roots: []string{dir}})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file.txt"), []byte(alice), 0o644))
	rows := func(title string) map[string]any {
		line := func(id, text string) string {
			b, err := json.Marshal(map[string]any{"id": id, "text": text, "title": title})
			require.NoError(t, err)
			return string(b) + "\n"
		}
		return map[string]any{"key": "rows", "format": "jsonl", "text": line("x", alice) + line("y", carol)}
	}
	with := func(e map[string]any, more ...any) map[string]any {
		e = maps.Clone(e)
		for i := 0; i < len(more); i += 2 {
			e[more[i].(string)] = more[i+1]
		}
		return e
	}
	inline := map[string]any{"key": "k", "text": alice}
	file := map[string]any{"sources": []string{"file.txt"}}
	for _, c := range []struct {
		name   string
		key    string
		first  map[string]any
		again  map[string]any
		ends   api.DocumentCounts
		anew   int // decisions of the loader
		exists bool
	}{
		{"nothing to do", "k", inline, inline, api.DocumentCounts{Total: 1, Updated: 1}, 1, true},
		{"a title", "k", inline, with(inline, "title", "T"), api.DocumentCounts{Total: 1, Updated: 1}, 1, true},
		{"a row of a file", "rows#x", rows(""), rows(""), api.DocumentCounts{Total: 2, Updated: 1, Unchanged: 1}, 1, true},
		{"a row with a title", "rows#x", rows(""), rows("T"), api.DocumentCounts{Total: 2, Updated: 2}, 1, true},
		{"a path", "file.txt", file, file, api.DocumentCounts{Total: 1, Updated: 1}, 1, true},
		{"new text", "k", inline, with(inline, "text", carol), api.DocumentCounts{Total: 1, Updated: 1}, 0, true},
		{"a delete", "k", inline, map[string]any{"op": "delete", "key": "k"}, api.DocumentCounts{Total: 1, Deleted: 1}, 0, false},
		{"a delete of nothing", "k", map[string]any{"key": "other", "text": carol}, map[string]any{"op": "delete", "key": "k"}, api.DocumentCounts{Total: 1, Deleted: 1}, 0, false},
	} {
		g := strings.ReplaceAll(c.name, " ", "-")
		f.putSchema(g, staff)
		f.run(g, c.first)
		var jobs []string
		for _, e := range []map[string]any{{"key": c.key, "text": bob}, c.again} {
			job := f.publish(g, with(e, "hold", true))
			f.await(g, job, api.JobHeld)
			jobs = append(jobs, job)
		}
		decided := f.counter("factmill_loader_documents_total")
		for i, want := range []int{0, c.anew} {
			s := f.cluster.accept(g, jobs[i])
			require.Equal(t, api.JobCommitted, s.State, "%s: %s", c.name, s.Reason)
			require.Equal(t, decided+want, f.counter("factmill_loader_documents_total"), c.name)
			if i == 1 {
				require.Equal(t, c.ends, s.Documents, c.name)
			}
		}
		text, ok := c.again["text"].(string)
		if !ok || strings.HasPrefix(c.key, "rows") {
			text = alice
		}
		if c.exists {
			d := f.documentAt(g, map[string]any{"key": c.key, "text": true})
			require.Equal(t, text, d.Text, c.name)
			require.Equal(t, "open", d.State)
			if strings.HasSuffix(c.name, "title") {
				require.Equal(t, "T", d.Document.Title, c.name)
			}
		} else {
			require.NotContains(t, f.exported(g, 0), bob, c.name)
		}
		f.sound(g)
	}
	f.noDeadLetters()
}

// TestVersionsAndHistory: every version stays readable, and entities and relations as of a commit.
func TestVersionsAndHistory(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	texts := []string{alice, alice + " " + bob, carol}
	var seqs []uint64
	var replies []api.EntityReply
	acme := map[string]any{"type": "Organization", "name": "Acme"}
	for i, text := range texts {
		s := f.run("g", map[string]any{"key": "k", "text": text, "published_at": fmt.Sprint(2020 + i)})
		seqs = append(seqs, s.CommitSeq)
		if i < 2 {
			replies = append(replies, ask[api.EntityReply](f.cluster, "g", "query.entity", acme))
		}
	}
	f.run("g", map[string]any{"op": "delete", "key": "k"})
	require.Equal(t, []uint64{1, 2, 3}, seqs)
	f.restart("committer")

	d := f.documentAt("g", map[string]any{"key": "k"})
	require.Equal(t, "deleted", d.State)
	require.Equal(t, 3, d.Version)
	for i, v := range d.Versions {
		require.Equal(t, i+1, v.Version)
		require.Equal(t, contentHash(texts[i]), v.ContentHash)
		require.Equal(t, uint64(i+1), v.FromSeq)
		require.Equal(t, uint64(i+2), v.ClosedSeq)
		require.Equal(t, fmt.Sprintf("j%d", i+1), v.Job)
		old := f.documentAt("g", map[string]any{"key": "k", "version": v.Version, "text": true})
		require.Equal(t, texts[i], old.Text)
		require.Equal(t, texts[i], old.Chunks[0].Text)
		require.Equal(t, contentHash(texts[i]), old.Document.ContentHash)
	}
	require.Equal(t, "version_not_found", refused(f.cluster, "g", "query.document", map[string]any{"key": "k", "version": 4}).Code)

	for i, want := range replies {
		req := maps.Clone(acme)
		req["as_of"] = seqs[i]
		require.Equal(t, want, ask[api.EntityReply](f.cluster, "g", "query.entity", req), "as of %d", seqs[i])
		n := ask[api.Subgraph](f.cluster, "g", "query.neighbors", req)
		require.Equal(t, seqs[i], n.Seq)
		require.Len(t, n.Edges, i+1)
		for _, r := range want.Relations {
			ev := ask[api.EvidenceReply](f.cluster, "g", "query.evidence", map[string]any{"id": r.ID, "as_of": seqs[i]})
			require.Len(t, ev.Evidence, 1)
			require.Equal(t, texts[i][ev.Evidence[0].Start:ev.Evidence[0].End], ev.Evidence[0].Quote)
		}
	}
	require.Len(t, replies[0].Relations, 1)
	require.Len(t, replies[1].Relations, 2)
	require.Equal(t, "entity_not_found", refused(f.cluster, "g", "query.entity", acme).Code)
	acme["as_of"] = 99
	require.Equal(t, "sequence_unknown", refused(f.cluster, "g", "query.entity", acme).Code)
}

// unreadable is an extractor that cannot read chunks with a given word in them; else it is the real one.
type unreadable struct {
	*extractor.Stage
	conn *bus.Conn
	word *atomic.Value
}

func (u *unreadable) Name() string { return extractor.Name }
func (u *unreadable) Ready() error { return nil }

func (u *unreadable) Handle(ctx context.Context, in bus.Delivery) ([]events.Event, error) {
	out, err := u.Stage.Handle(ctx, in)
	word, _ := u.word.Load().(string)
	if err != nil || word == "" {
		return out, err
	}
	e, c := out[0].(*events.Extracted), in.Event.(*events.Chunked)
	for i, chunk := range c.Chunks {
		if !strings.Contains(c.Text[chunk.Start:chunk.End], word) {
			continue
		}
		if c.Job.ErrorPolicy == events.PolicyRaise {
			return nil, fault.Bad("chunk_failed", "chunk %d cannot be read", i)
		}
		failure := graph.Failure{Stage: extractor.Name, Item: fmt.Sprintf("%s#%d", c.Doc.Key, i), Code: "chunk_failed", Message: "cannot be read", TraceID: in.Trace}
		e.Extraction.Chunks = slices.DeleteFunc(e.Extraction.Chunks, func(x graph.ChunkItems) bool { return x.Index == i })
		e.Extraction.Chunks = append(e.Extraction.Chunks, graph.ChunkItems{Index: i, State: graph.Failed, Failure: &failure})
		e.Stats.Failures = append(e.Stats.Failures, failure)
	}
	return out, nil
}

func (u *unreadable) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listed := make(chan error, 1)
	go func() {
		defer stop()
		listed <- u.conn.Serve(ctx, bus.ServiceInfo{Name: extractor.Name}, nil, bus.ServeOptions{})
	}()
	err := u.conn.Run(ctx, bus.RunConfig{Service: extractor.Name, Stream: bus.StreamChunked, Concurrency: 2}, u)
	stop()
	return errors.Join(err, <-listed)
}

// TestUnreadTextNeverCleans: an update of which one chunk cannot be read keeps that chunk's facts, says what it removed, and leaves
// no stamp, so that the next update reads again. Until the commit the old version is what everybody reads.
func TestUnreadTextNeverCleans(t *testing.T) {
	var word atomic.Value
	f := newFleet(t, fleetOptions{Fake: map[string]func(app.Deps) (app.Service, error){
		"extractor": func(deps app.Deps) (app.Service, error) {
			fetch := func(ctx context.Context, g string, revision uint64) ([]byte, error) {
				var r api.SchemaReply
				err := deps.Conn.Request(ctx, "factmill."+g+".schema.get", api.SchemaGet{Revision: revision}, &r)
				return r.Schema, err
			}
			stage, err := extractor.NewStage(extractor.Config{}, deps, schemacache.New(fetch, 0))
			return &unreadable{stage, deps.Conn, &word}, err
		},
	}})
	pad := " " + strings.Repeat("And so the days went by without anything else. ", 3)
	one, two := "Alice works at Acme."+pad, "Bob works at Orva. Dan was born in 1990."+pad
	const all = "Alice Bob Dan"
	people := func(g string) string {
		var names []string
		for name := range f.edges(g) {
			if !strings.Contains(name, " ") && strings.Contains(all+" Carol", name) {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		return strings.Join(names, " ")
	}
	for _, policy := range []string{"skip", "quarantine"} {
		g := policy
		f.putSchema(g, staff)
		f.putSettings(g, map[string]string{"chunker.size": "32"})
		word.Store("")
		f.run(g, map[string]any{"key": "k", "text": one + "\n\n" + two})
		require.Equal(t, all, people(g))
		require.NotEmpty(t, f.stored(g, "k").ExtractionFP)
		require.Greater(t, len(f.documentAt(g, map[string]any{"key": "k"}).Chunks), 1)

		// A new version: Alice's sentence goes, Carol's comes; the chunk with Bob and Dan cannot be read.
		word.Store("Bob")
		event := map[string]any{"key": "k", "text": "Carol works at Acme." + pad + "\n\n" + two, "error_policy": policy, "hold": true}
		job := f.publish(g, event)
		f.await(g, job, api.JobHeld)
		require.Equal(t, all, people(g), "the old version is readable until the commit")
		require.Equal(t, 1, f.documentAt(g, map[string]any{"key": "k"}).Version)
		s := f.cluster.accept(g, job)
		require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, s.Documents)
		require.Equal(t, 1, s.Stages.Extraction.ChunksFailed)
		require.Equal(t, "chunk_failed", s.Stages.Extraction.Failures.List[0].Code)
		require.Equal(t, []string{`"Alice" WORKS_FOR "Acme"`, `Person "Alice"`}, s.Removed)
		require.Equal(t, "Bob Carol Dan", people(g))
		require.Equal(t, 1, f.edges(g)["Bob Orva"])
		dan := ask[api.EntityReply](f.cluster, g, "query.entity", map[string]any{"type": "Person", "name": "Dan"})
		require.Equal(t, "1990", dan.Entity.Properties["born"].Value)
		require.Empty(t, f.stored(g, "k").ExtractionFP, "no stamp")
		f.sound(g)

		// In place: the same text again, which still cannot be read whole.
		delete(event, "hold")
		s = f.run(g, event)
		require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, s.Documents, "a missing stamp reads again")
		require.Empty(t, s.Removed)
		require.Equal(t, "Bob Carol Dan", people(g))
		require.Equal(t, 2, f.documentAt(g, map[string]any{"key": "k"}).Version)
		f.sound(g)

		// Then it can: the graph is what a fresh one is.
		word.Store("")
		require.Equal(t, api.DocumentCounts{Total: 1, Updated: 1}, f.run(g, event).Documents)
		require.NotEmpty(t, f.stored(g, "k").ExtractionFP)
		require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, f.run(g, event).Documents)
		fresh := g + "-fresh"
		f.putSchema(fresh, staff)
		f.putSettings(fresh, map[string]string{"chunker.size": "32"})
		f.run(fresh, map[string]any{"key": "k", "text": event["text"]})
		require.Equal(t, f.exported(fresh, 0), f.exported(g, 0))
		f.sound(g)
	}

	// Under raise nothing of it happens.
	was, stored := f.exported("skip", 0), f.stored("skip", "k")
	word.Store("Bob")
	s := f.await("skip", f.publish("skip", map[string]any{"key": "k", "text": two}), api.JobRolledBack)
	require.Contains(t, s.Reason, "chunk_failed")
	require.Equal(t, was, f.exported("skip", 0))
	require.Equal(t, stored, f.stored("skip", "k"))
}

// TestNoCandidates: a job that says so removes its documents' pending candidates and writes none; nothing to do leaves them.
func TestNoCandidates(t *testing.T) {
	f := newFleet(t, fleetOptions{})
	f.putSchema("g", staff)
	event := map[string]any{"key": "k", "text": alice + " Perhaps Bob will work for Orva."}
	f.run("g", event)
	require.Equal(t, 1, strings.Count(f.exported("g", 0), `"kind":"candidate"`))
	event["candidates"] = false
	require.Equal(t, api.DocumentCounts{Total: 1, Unchanged: 1}, f.run("g", event).Documents)
	require.Equal(t, 1, strings.Count(f.exported("g", 0), `"kind":"candidate"`))
	event["force"] = true
	s := f.run("g", event)
	require.Zero(t, strings.Count(f.exported("g", 0), `"kind":"candidate"`))
	require.Zero(t, s.Stages.Extraction.CandidatesWritten)
	require.Equal(t, 1, s.Stages.Extraction.Dropped[0].Count)
	delete(event, "candidates")
	f.run("g", event)
	require.Equal(t, 1, strings.Count(f.exported("g", 0), `"kind":"candidate"`))
	f.run("g", map[string]any{"op": "delete", "key": "k"})
	require.Empty(t, f.exported("g", 0))
	f.sound("g")
}

// TestTwoHundredFilesOneUnreadable is what a user sees of the three error policies.
func TestTwoHundredFilesOneUnreadable(t *testing.T) {
	dir := t.TempDir()
	for i := range 199 {
		name := filepath.Join(dir, fmt.Sprintf("f%03d.txt", i))
		require.NoError(t, os.WriteFile(name, fmt.Appendf(nil, "Alice works at Acme. This is number %d.", i), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "odd.dat"), []byte{0, 1, 2, 3}, 0o644))
	c := allInOne(t)
	ingest := func(code int, g string, more ...string) api.JobStatus {
		r := c.cli(code, append([]string{"ingest", dir, "--graph", g, "--json"}, more...)...)
		var s api.JobStatus
		require.NoError(t, json.Unmarshal([]byte(r.stdout), &s), r.stdout)
		return s
	}
	s := ingest(4, "skip", "--error-policy", "skip")
	require.Equal(t, api.JobCommitted, s.State)
	require.Equal(t, api.DocumentCounts{Total: 200, Added: 199, Skipped: 1}, s.Documents)
	require.Equal(t, "unsupported_format", s.Stages.Ingestion.List[0].Code)
	require.Contains(t, s.Stages.Ingestion.List[0].Item, "odd.dat")

	s = ingest(4, "quarantine", "--error-policy", "quarantine")
	require.Equal(t, api.DocumentCounts{Total: 200, Added: 199, Quarantined: 1}, s.Documents)
	letters := ask[api.DeadListReply](c, "quarantine", "dead-letters.list", api.DeadList{})
	require.Len(t, letters.Letters, 1)
	require.Equal(t, api.QuarantineKind, letters.Letters[0].Kind)
	require.Contains(t, letters.Letters[0].Key, "odd.dat")
	require.Equal(t, "unsupported_format", letters.Letters[0].Code)
	require.NotEmpty(t, letters.Letters[0].Reason)
	require.Contains(t, c.cli(0, "dead-letters", "list", "--graph", "quarantine").stdout, "odd.dat")

	s = ingest(1, "raise")
	require.Equal(t, api.JobRolledBack, s.State)
	require.Contains(t, s.Reason, "odd.dat")
	require.Empty(t, c.export("raise"))
	require.Equal(t, c.export("skip"), c.export("quarantine"))
	c.sound("skip")
}
