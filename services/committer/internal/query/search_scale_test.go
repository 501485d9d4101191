package query

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// prose makes texts whose words are as frequent as those of a language: the nth most frequent of about 200,000 stands 1/n times as often as the first.
type prose struct {
	rng  *rand.Rand
	zipf *rand.Zipf
}

func newProse(seed uint64) *prose {
	rng := rand.New(rand.NewPCG(seed, 7))
	return &prose{rng, rand.NewZipf(rng, 1.07, 4, 200_000)}
}

func word(n uint64) string { return "w" + strconv.FormatUint(n, 36) + "x" }

func (p *prose) text(words int) string {
	var b strings.Builder
	for range words {
		b.WriteString(word(p.zipf.Uint64()) + " ")
	}
	return b.String()
}

// query is three words: one in about a tenth of the chunks, one in a hundredth, one that is rare.
func (p *prose) query() string {
	at := func(lo, hi float64) uint64 {
		return uint64(math.Exp(math.Log(lo) + p.rng.Float64()*(math.Log(hi)-math.Log(lo))))
	}
	return word(at(20, 100)) + " " + word(at(200, 2000)) + " " + word(at(3000, 30000))
}

// load commits documents of four chunks of about 80 words, and five people each.
func (d *desk) load(chunks, perCommit int) {
	p := newProse(1)
	var docs []*doc
	for i := range chunks / 4 {
		var paragraphs []string
		for j := range 4 {
			paragraphs = append(paragraphs, fmt.Sprintf("Given%d Family%d met. %s", (i*4+j)%26, i*4+j, p.text(80)))
		}
		x := newDoc(fmt.Sprintf("doc%07d", i), strings.Join(paragraphs, "\n\n"))
		for j := range 4 {
			name := fmt.Sprintf("Given%d Family%d", (i*4+j)%26, i*4+j)
			x.mentionAt("Person:"+name, name, j, x.c.Chunks[j].Start)
		}
		if docs = append(docs, x); len(docs) == perCommit {
			d.commit(docs...)
			docs = docs[:0]
		}
	}
	if len(docs) > 0 {
		d.commit(docs...)
	}
}

// ask searches n times and returns how long each search took, in order.
func (d *desk) ask(n int, of func(p *prose) api.Search) []time.Duration {
	p := newProse(2)
	var out []time.Duration
	for range n {
		req := of(p)
		begin := time.Now()
		_, err := d.q.Search(d.tb.Context(), g, req)
		out = append(out, time.Since(begin))
		require.NoError(d.tb, err)
	}
	slices.Sort(out)
	return out
}

// TestSearchAtScale prints what searches take in a graph of as many chunks as FACTMILL_SCALE says, which are committed 500 documents at once.
func TestSearchAtScale(t *testing.T) {
	n, err := strconv.Atoi(os.Getenv("FACTMILL_SCALE"))
	if err != nil {
		t.Skip("NOT RUN: a measurement; set FACTMILL_SCALE to a number of chunks, such as 200000")
	}
	d := newDesk(t)
	d.load(n, 500)
	for _, c := range []struct {
		name string
		of   func(p *prose) api.Search
	}{
		{"words", func(p *prose) api.Search { return api.Search{Q: p.query()} }},
		{"common words", func(p *prose) api.Search {
			return api.Search{Q: word(p.rng.Uint64N(5)) + " " + word(5+p.rng.Uint64N(20))}
		}},
		{"name", func(p *prose) api.Search {
			i := p.rng.IntN(n)
			return api.Search{Q: fmt.Sprintf("Given%d Family%d", i%26, i)}
		}},
		{"one document", func(p *prose) api.Search {
			return api.Search{Q: p.query(), Filters: api.Filters{Documents: []string{fmt.Sprintf("doc%07d", p.rng.IntN(n/4))}}}
		}},
	} {
		first := d.ask(20, c.of)
		times := d.ask(200, c.of)
		t.Logf("%d chunks, %s: median %s, p95 %s; of the first 20 %s, %s", n, c.name, times[100], times[190], first[10], first[18])
	}
}
