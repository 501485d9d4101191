package query

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// fill commits n documents of about 4 KB: ten people, five of twenty companies, relations in between.
func fill(b *testing.B, n int) *desk {
	d := newDesk(b)
	filler := strings.Repeat("The committee met on a Tuesday and wrote a long report about engines. ", 8)
	txn, err := d.st.Begin(b.Context(), g)
	require.NoError(b, err)
	for i := range n {
		var text strings.Builder
		type pair struct{ person, company, quote string }
		var pairs []pair
		for j := range 5 {
			p := pair{person: fmt.Sprintf("Worker %d", (i*7+j*13)%(n+1)), company: fmt.Sprintf("Company %d Ltd", (i+j)%20)}
			p.quote = fmt.Sprintf("%s works for %s.", p.person, p.company)
			text.WriteString(p.quote + " " + filler + "\n\n")
			pairs = append(pairs, p)
		}
		x := newDoc(fmt.Sprintf("doc%06d", i), text.String())
		for j, p := range pairs {
			start := x.c.Chunks[j].Start
			for _, e := range []string{"Person:" + p.person, "Organization:" + p.company} {
				_, name, _ := strings.Cut(e, ":")
				x.mentionAt(e, name, j, start+strings.Index(p.quote, name))
			}
			x.relate("WORKS_FOR", "Person:"+p.person, "Organization:"+p.company, p.quote)
		}
		d.at++
		_, err := txn.Apply(b.Context(), x.change(d.s, d.at))
		require.NoError(b, err)
	}
	_, err = txn.Finish(b.Context(), []store.Op(nil))
	require.NoError(b, err)
	return d
}

func BenchmarkEntity(b *testing.B) {
	d := fill(b, 1000)
	for b.Loop() {
		got, err := d.q.Entity(b.Context(), g, api.EntityGet{Type: "Organization", Name: "company 7 ltd"})
		if err != nil || len(got.Relations) == 0 {
			b.Fatal(err)
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	d := fill(b, 1000)
	for _, q := range []string{"Company 7", "who works about engines"} {
		b.Run(q, func(b *testing.B) {
			for b.Loop() {
				got, err := d.q.Search(b.Context(), g, api.Search{Q: q})
				if err != nil || len(got.Hits) == 0 {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkExport(b *testing.B) {
	d := fill(b, 2000)
	b.Run("file", func(b *testing.B) {
		for b.Loop() {
			if err := d.q.ExportTo(b.Context(), g, api.Export{Canonical: true}, io.Discard); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("pages", func(b *testing.B) {
		for b.Loop() {
			d.tb = b
			d.pages(api.Export{Canonical: true})
		}
	})
}
