package store

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

const g = "default"

var clock = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func options(fs vfs.FS) Options {
	return Options{Dir: "data", FS: fs, Now: func() time.Time { return clock }, CacheBytes: 1 << 20, MemTableBytes: 1 << 20}
}

func openStore(tb testing.TB, o Options) *Store {
	tb.Helper()
	s, err := Open(context.Background(), o)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	_, ok := s.Graph(g, true)
	require.True(tb, ok)
	return s
}

func memStore(tb testing.TB) *Store { return openStore(tb, options(vfs.NewMem())) }

func commit(tb T, s *Store, changes ...DocChange) []DocResult {
	tb.Helper()
	txn, err := s.Begin(context.Background(), g)
	require.NoError(tb, err)
	var out []DocResult
	for _, c := range changes {
		r, err := txn.Apply(context.Background(), c)
		require.NoError(tb, err)
		out = append(out, r)
	}
	_, err = txn.Finish(context.Background(), nil)
	require.NoError(tb, err)
	return out
}

var mentionRE = regexp.MustCompile(`\[(\w+):([^\]=]+)(?:=([^\]]+))?\]`)

// fixture reads a document out of a small notation. Chunks are parted by lines of "~". In a chunk "[Person:Ada]" mentions an
// entity, "[Person:Ada=Ada Lovelace]" mentions it by another name. Lines at the end:
//
//	> chunk TYPE Label:Name Label:Name [p=v…]   a relation; the chunk is its quote
//	. chunk name=value Label:Name               a property value; its quote is where the value stands, else the chunk
//	? chunk kind label text                     a candidate; its quote is where the text stands
//	! chunk state                               the chunk was not read whole
func fixture(docKey, src string) (DocChange, error) {
	c := DocChange{Decision: graph.NewVersion, Meta: graph.Meta{Key: docKey}, SchemaFP: "schema1", SchemaName: "test", SchemaVersion: "1",
		SchemaRevision: 1, ChunkerFP: "chunker1", ExtractionFP: "ext1", Job: "j1"}
	b := builder{c: &c, refs: map[string]int{}}
	for _, line := range strings.Split(strings.TrimRight(src, "\n"), "\n") {
		if err := b.line(line); err != nil {
			return c, fmt.Errorf("%s: %w", line, err)
		}
	}
	b.endChunk()
	if err := b.finish(); err != nil {
		return c, err
	}
	c.Text = b.text.String()
	c.ContentHash = fingerprint.ContentHash(c.Text)
	return c, nil
}

type builder struct {
	c     *DocChange
	text  strings.Builder
	start int
	refs  map[string]int
	rest  []string
	more  bool
}

func (b *builder) line(line string) error {
	if len(line) > 1 && strings.ContainsRune(">.?!", rune(line[0])) && line[1] == ' ' {
		b.rest = append(b.rest, line)
		return nil
	}
	if line == "~" {
		b.endChunk()
		return nil
	}
	if b.more {
		b.text.WriteByte('\n')
	}
	b.more = true
	chunk := b.chunk(len(b.c.Chunks))
	at := 0
	for _, m := range mentionRE.FindAllStringSubmatchIndex(line, -1) {
		b.text.WriteString(line[at:m[0]])
		at = m[1]
		name, full := line[m[4]:m[5]], line[m[4]:m[5]]
		if m[6] >= 0 {
			full = line[m[6]:m[7]]
		}
		start := b.text.Len()
		b.text.WriteString(name)
		chunk.Mentions = append(chunk.Mentions, graph.Mention{Entity: b.ref(line[m[2]:m[3]], full), Name: name, Start: start,
			End: b.text.Len(), Confidence: 0.9, Extractor: "rules"})
	}
	b.text.WriteString(line[at:])
	return nil
}

func (b *builder) endChunk() {
	if b.text.Len() > b.start {
		b.c.Chunks = append(b.c.Chunks, graph.Chunk{Start: b.start, End: b.text.Len(), Content: "text", Tokens: 1})
		b.start = b.text.Len()
	}
}

func (b *builder) chunk(i int) *graph.ChunkAssertions {
	for j := range b.c.Assertions.Chunks {
		if b.c.Assertions.Chunks[j].Index == i {
			return &b.c.Assertions.Chunks[j]
		}
	}
	b.c.Assertions.Chunks = append(b.c.Assertions.Chunks, graph.ChunkAssertions{Index: i})
	return &b.c.Assertions.Chunks[len(b.c.Assertions.Chunks)-1]
}

func (b *builder) ref(label, name string) int {
	k := label + ":" + fingerprint.Fold(name)
	if i, ok := b.refs[k]; ok {
		return i
	}
	b.refs[k] = len(b.c.Assertions.Entities)
	b.c.Assertions.Entities = append(b.c.Assertions.Entities, graph.EntityRef{ID: fingerprint.EntityID(label, fingerprint.Fold(name)), Label: label, Key: fingerprint.Fold(name)})
	return b.refs[k]
}

func (b *builder) named(s string) int {
	label, name, _ := strings.Cut(s, ":")
	return b.ref(label, strings.ReplaceAll(name, "_", " "))
}

func (b *builder) finish() error {
	for _, line := range b.rest {
		f := strings.Fields(line)
		i, err := strconv.Atoi(f[1])
		if err != nil || i >= len(b.c.Chunks) {
			return fmt.Errorf("%s: no such chunk", line)
		}
		span := b.c.Chunks[i]
		chunk := b.chunk(i)
		switch f[0] {
		case ">":
			r := graph.RelationA{Type: f[2], Source: b.named(f[3]), Target: b.named(f[4]), Start: span.Start, End: span.End, Confidence: 0.8, Extractor: "rules"}
			for _, p := range f[5:] {
				k, v, _ := strings.Cut(p, "=")
				if r.Properties == nil {
					r.Properties = map[string]any{}
				}
				r.Properties[k] = value(v)
			}
			chunk.Relations = append(chunk.Relations, r)
		case ".":
			k, v, _ := strings.Cut(f[2], "=")
			v, conf, _ := strings.Cut(v, "@")
			p := graph.PropertyA{Entity: b.named(f[3]), Name: k, Value: value(v), Start: span.Start, End: span.End, Confidence: 0.7, Extractor: "rules"}
			if conf != "" {
				p.Confidence, _ = strconv.ParseFloat(conf, 64)
			}
			b.find(v, span, &p.Start, &p.End)
			chunk.Properties = append(chunk.Properties, p)
		case "?":
			text := strings.ReplaceAll(f[4], "_", " ")
			x := graph.Candidate{Key: f[2] + "|" + fingerprint.CNorm(f[3]) + "|" + fingerprint.CNorm(text), Kind: f[2], Label: f[3], Text: text,
				Confidence: 0.6, Reasons: []string{graph.ReasonUndeclaredLabel}, Count: 1, Chunk: i, Start: span.Start, End: span.End, Extractor: "rules"}
			b.find(text, span, &x.Start, &x.End)
			b.c.Assertions.Candidates = append(b.c.Assertions.Candidates, x)
		case "!":
			chunk.State = f[2]
		}
	}
	return nil
}

func (b *builder) find(s string, span graph.Chunk, start, end *int) {
	if at := strings.Index(b.text.String()[span.Start:span.End], s); at >= 0 {
		*start, *end = span.Start+at, span.Start+at+len(s)
	}
}

func value(s string) any {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i
	}
	if f, err := strconv.ParseFloat(s, 64); err == nil {
		return f
	}
	return s
}

func mustFixture(tb T, docKey, src string) DocChange {
	tb.Helper()
	c, err := fixture(docKey, src)
	require.NoError(tb, err)
	return c
}

// dumpOpen writes everything that is live, without sequences, times, numbers, revisions and closed versions: two stores that
// hold the same documents give the same text, whatever their history.
func dumpOpen(tb T, s *Store, seq uint64) string {
	tb.Helper()
	sn, err := s.Snapshot(g, seq)
	require.NoError(tb, err)
	defer sn.Close()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	keys := map[string]string{}
	terms := map[string]bool{}
	require.NoError(tb, sn.Docs("", func(d Doc) error {
		keys[d.Meta.ID] = d.Meta.Key
		if !d.Open {
			return nil
		}
		v, ok, err := sn.Version(d.Meta.ID, d.Version)
		require.NoError(tb, err)
		require.True(tb, ok)
		require.Zero(tb, v.ClosedSeq)
		text, _, err := sn.Text(d.Meta.ID, d.Version)
		require.NoError(tb, err)
		st, _, err := sn.Assertions(d.Meta.ID, d.Version)
		require.NoError(tb, err)
		line("doc %s title=%q date=%s %s/%s/%s %q", d.Meta.Key, d.Meta.Title, d.Date(), v.SchemaFP, v.ChunkerFP, v.ExtractionFP, text)
		for i, c := range v.Chunks {
			ref, ok, err := sn.ChunkRef(fingerprint.ChunkID(d.Meta.ID, v.ContentHash, v.ChunkerFP, i))
			require.NoError(tb, err)
			require.True(tb, ok && ref.Open && ref.Index == i && ref.DocID == d.Meta.ID)
			line("  chunk %d %d-%d", i, c.Start, c.End)
			for _, w := range strings.Fields(text[c.Start:c.End]) {
				terms[fingerprint.CNorm(w)] = true
			}
		}
		for _, c := range st.Chunks {
			line("  states %d %s m=%d p=%d r=%d", c.Index, c.State, len(c.Mentions), len(c.Properties), len(c.Relations))
		}
		return sn.Candidates(d.Meta.ID, func(r CandidateRecord) error {
			line("  candidate %s %s %q count=%d %d:%d-%d", r.State, r.Key, r.Quote, r.Count, r.Chunk, r.Start, r.End)
			return nil
		})
	}))
	props := func(owner string) {
		folds, err := sn.PropertyFolds(owner)
		require.NoError(tb, err)
		for _, f := range folds {
			line("  %s=%v docs=%d best=%g×%d newest=%s×%d", f.Name, f.Value, f.Documents, f.Best, f.BestDocs, f.Newest, f.NewestDocs)
			require.NoError(tb, sn.PropertySupports(owner, f.Name, f.Value, func(e EvidenceSupport) error {
				line("    %s %s %s", keys[e.DocID], e.Date, spans(e.Spans))
				return nil
			}))
		}
	}
	require.NoError(tb, sn.EntitiesAll("", func(f EntityFold) error {
		line("entity %s %q key=%q docs=%d mentions=%d %v", f.Label, f.Display(), f.Key, f.Documents, f.Mentions, f.Names)
		require.NoError(tb, sn.Mentions(f.ID, "", func(m MentionSupport) error {
			for _, x := range m.Spans {
				line("  mention %s %d:%d-%d %q", keys[m.DocID], x.Chunk, x.Start, x.End, x.Name)
			}
			return nil
		}))
		for _, n := range f.Names {
			hits, err := sn.EntitiesNamed(fingerprint.Fold(n.Name))
			require.NoError(tb, err)
			require.True(tb, slices.ContainsFunc(hits, func(h NamedEntity) bool { return h.ID == f.ID && h.Full == n.Full }))
		}
		props(f.ID)
		require.NoError(tb, sn.Out(f.ID, "", func(e Edge) error {
			line("  out %s %s", e.Type, e.Other)
			return nil
		}))
		return sn.In(f.ID, "", func(e Edge) error {
			line("  in %s %s", e.Type, e.Other)
			return nil
		})
	}))
	require.NoError(tb, sn.RelationsAll("", func(f RelationFold) error {
		line("relation %s %s %s docs=%d evidence=%d", f.Type, f.Source, f.Target, f.Documents, f.Evidence)
		props(f.ID)
		return sn.Evidence(f.ID, "", func(e EvidenceSupport) error {
			line("  %s %s", keys[e.DocID], spans(e.Spans))
			return nil
		})
	}))
	require.NoError(tb, sn.MatchesAll(Match{}, func(m Match) error {
		line("match %s %s %s %.3f %s", m.A, m.B, m.Method, m.Score, m.State())
		return nil
	}))
	for _, x := range inConflict(tb, s, seq) {
		line("conflict %s", x)
	}
	names, err := sn.EntityNamePrefix("", 0)
	require.NoError(tb, err)
	for _, n := range names {
		line("name %q %s %t", n.Name, n.Label, n.Full)
	}
	require.NoError(tb, sn.CandidateAll(CandidateCursor{}, func(r CandidateRecord) error {
		line("group %s %s %s", r.Key, keys[r.DocID], r.State)
		return nil
	}))
	require.NoError(tb, sn.Decisions(func(d Decision) error {
		line("decision %s %s", d.Key, d.State)
		return nil
	}))
	for _, term := range slices.Sorted(mapsKeys(terms)) {
		var hits []string
		require.NoError(tb, sn.Postings(term, func(p Posting) error {
			ref, ok, err := sn.ChunkAt(p.No)
			require.NoError(tb, err)
			require.True(tb, ok)
			if ref.Open {
				hits = append(hits, fmt.Sprintf("%s:%d×%d/%d", keys[ref.DocID], ref.Index, p.TF, ref.Terms))
			}
			return nil
		}))
		slices.Sort(hits)
		line("term %s %s", term, strings.Join(hits, " "))
	}
	c, err := sn.Counts()
	require.NoError(tb, err)
	line("counts docs=%d chunks=%d terms=%d mentions=%d entities=%v relations=%v pending=%d", c.Documents, c.Chunks, c.Terms, c.Mentions, c.Entities, c.Relations, c.Candidates)
	return b.String()
}

func spans(s []EvidenceSpan) string {
	var out []string
	for _, e := range s {
		out = append(out, fmt.Sprintf("%d:%d-%d@%g", e.Chunk, e.Start, e.End, e.Confidence))
	}
	return strings.Join(out, " ")
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func docID(k string) string { return fingerprint.DocumentID(k) }

// T is what helpers need of testing.T and rapid.T.
type T interface {
	require.TestingT
	Helper()
}

func entityID(label, folded string) string { return fingerprint.EntityID(label, folded) }
