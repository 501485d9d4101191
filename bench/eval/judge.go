package eval

import (
	"context"
	"fmt"
	"hash/fnv"

	"github.com/factmill/factmill/pkg/linkage"
)

// Judge says of unclear pairs whether they are of one thing: "match", "no_match" or "uncertain", one verdict a pair.
type Judge func(ctx context.Context, pairs []NamePair) ([]string, error)

// judgeBatch is how many pairs a judge is asked about at once.
const judgeBatch = 10

// Perfect is the judge that knows the gold: what any judge could add at most.
func Perfect(_ context.Context, pairs []NamePair) ([]string, error) {
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = "no_match"
		if p.Same {
			out[i] = "match"
		}
	}
	return out, nil
}

// AtRandom is the judge that throws a coin, the same one for the same names: what a judge that knows nothing does.
func AtRandom(_ context.Context, pairs []NamePair) ([]string, error) {
	out := make([]string, len(pairs))
	for i, p := range pairs {
		h := fnv.New32a()
		fmt.Fprintf(h, "%s\x00%s\x00%s", p.Label, min(p.A, p.B), max(p.A, p.B))
		out[i] = "no_match"
		if h.Sum32()>>16&1 == 0 { // the low bits of this hash are no coin
			out[i] = "match"
		}
	}
	return out, nil
}

// AddJudge puts what the last way leaves unclear before a judge, as one way more.
func (r *Resolution) AddJudge(ctx context.Context, way string, judge Judge) error {
	said := map[int]string{}
	var at []int
	var batch []NamePair
	ask := func() error {
		verdicts, err := judge(ctx, batch)
		if err == nil && len(verdicts) != len(batch) {
			err = fmt.Errorf("%d verdicts for %d pairs", len(verdicts), len(batch))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", way, err)
		}
		for i, v := range verdicts {
			said[at[i]] = v
		}
		at, batch = nil, nil
		return nil
	}
	for i, v := range r.last {
		if v.Outcome != linkage.Unclear {
			continue
		}
		at, batch = append(at, i), append(batch, r.pairs[i])
		if len(batch) == judgeBatch {
			if err := ask(); err != nil {
				return err
			}
		}
	}
	if len(batch) > 0 {
		if err := ask(); err != nil {
			return err
		}
	}
	r.Judged = append(r.Judged, way)
	r.All[way] = &Tally{}
	for i, v := range r.last {
		switch said[i] {
		case "match":
			v.Outcome = linkage.Link
		case "no_match":
			v.Outcome = linkage.None
		}
		r.tally(way, r.pairs[i], v, false)
	}
	return nil
}
