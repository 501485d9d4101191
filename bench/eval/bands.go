package eval

import (
	"fmt"
	"math"

	"github.com/factmill/factmill/pkg/linkage"
)

// bandEdges of the cosines that are counted apart; the thresholds of an embedder are chosen by them.
var bandEdges = []float64{0.70, 0.75, 0.80, 0.85, 0.90, 0.95, 0.98}

// Band is the pairs about which no method said anything, from one cosine up to the next one.
type Band struct {
	From, To    float64
	Same, Other int
}

// bands are all of them, the lowest from -1 on.
func bands() []Band {
	out := []Band{{From: -1, To: bandEdges[0]}}
	for i, from := range bandEdges {
		to := math.Inf(1)
		if i+1 < len(bandEdges) {
			to = bandEdges[i+1]
		}
		out = append(out, Band{From: from, To: to})
	}
	return out
}

func (r *Resolution) band(p NamePair, methods linkage.Verdict, cosine float64) {
	if methods.Outcome != linkage.None {
		return
	}
	for i := range r.Bands {
		b := &r.Bands[i]
		switch {
		case cosine < b.From || cosine >= b.To:
		case p.Same:
			b.Same++
		default:
			b.Other++
		}
	}
}

func (r *Resolution) printBands(p *printer) {
	p.line("\npairs that no method decided, by cosine: a drop threshold of the lower edge gives these and all above to a judge or a person")
	p.line("%-12s %6s %6s", "cosine", "same", "other")
	for _, b := range r.Bands {
		from, to := fmt.Sprintf("%.2f", b.From), fmt.Sprintf("%.2f", b.To)
		if b.From < 0 {
			from = ""
		}
		if math.IsInf(b.To, 1) {
			to = ""
		}
		p.line("%4s … %4s  %6d %6d", from, to, b.Same, b.Other)
	}
}
