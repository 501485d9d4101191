package eval

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sort"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/linkage"
)

// NamePair is two names of one label, and whether they are of one thing.
type NamePair struct {
	Label string `json:"label"`
	A     string `json:"a"`
	B     string `json:"b"`
	Same  bool   `json:"same"`
	Kind  string `json:"kind"`
}

// ReadPairs reads name pairs, one JSON object a line.
func ReadPairs(r io.Reader) ([]NamePair, error) {
	var out []NamePair
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, 1<<20)
	for line := 1; sc.Scan(); line++ {
		if len(sc.Bytes()) == 0 {
			continue
		}
		var p NamePair
		if err := json.Unmarshal(sc.Bytes(), &p); err != nil {
			return nil, fmt.Errorf("name pairs, line %d: %w", line, err)
		}
		if p.Label == "" || p.A == "" || p.B == "" {
			return nil, fmt.Errorf("name pairs, line %d: label, a and b are needed", line)
		}
		out = append(out, p)
	}
	return out, sc.Err()
}

// Ways are the ways of linking that are compared, from the simplest on.
var Ways = []string{"exact names", "token-sort alone", "methods", "methods + cosine"}

// Tally of one way: its links against the gold, and the pairs that it leaves to a person.
type Tally struct {
	Count
	Pairs         int // all of them
	Unclear       int // left to a person
	UnclearSame   int // of these, pairs of one thing
	VetoedSame    int // pairs of one thing that no tier may link
	BlocksMissing int // pairs that it links or finds unclear by a method, and that share no block: must be 0
}

// Resolution is how well names are linked on a set of pairs.
type Resolution struct {
	All    map[string]*Tally            // by way
	Kinds  map[string]map[string]*Tally // by kind, way
	Method map[linkage.Method]*MethodTally
	// Wrong and Missed are lines for a person to read, of the last way.
	Wrong, Missed []string
	Embedder      string
	Link, Drop    float64 // its thresholds
	// Bands are what methods left, by cosine.
	Bands []Band
	// Judged are the ways that AddJudge added.
	Judged []string

	pairs []NamePair
	last  []linkage.Verdict // of the last way, by pair
}

// MethodTally is what one method said in the last way.
type MethodTally struct{ LinkSame, LinkOther, UnclearSame, UnclearOther, VetoSame, VetoOther int }

// RunResolution links every pair in every way; cosines are e's.
func RunResolution(ctx context.Context, pairs []NamePair, e embed.Embedder) (*Resolution, error) {
	r := &Resolution{All: map[string]*Tally{}, Kinds: map[string]map[string]*Tally{}, Method: map[linkage.Method]*MethodTally{}, Embedder: e.Name(), Bands: bands(), pairs: pairs}
	r.Link, r.Drop = e.Thresholds()
	for i, p := range pairs {
		a, b := linkage.Prepare(p.Label, p.A, nil), linkage.Prepare(p.Label, p.B, nil)
		v, err := e.Embed(ctx, []string{p.A, p.B})
		if err != nil {
			return nil, fmt.Errorf("name pair %d: %w", i+1, err)
		}
		exact := linkage.Verdict{Outcome: linkage.None}
		if a.Key() == b.Key() {
			exact = linkage.Verdict{Method: linkage.Exact, Score: 1, Outcome: linkage.Link}
		}
		sorted := exact
		if s := linkage.TokenSortRatio(&a, &b); s >= linkage.DefaultTokenSort {
			sorted = linkage.Verdict{Method: linkage.TokenSort, Score: s, Outcome: linkage.Link}
		}
		methods := linkage.Compare(&a, &b, linkage.Options{})
		near := embed.Cosine(v[0], v[1])
		r.band(p, methods, near)
		cosine := methods.WithCosine(near, r.Link, r.Drop)
		for k, verdict := range []linkage.Verdict{exact, sorted, methods, cosine} {
			r.tally(Ways[k], p, verdict, k == 2 && !shareBlock(&a, &b))
		}
		r.method(p, cosine)
		r.last = append(r.last, cosine)
	}
	return r, nil
}

func shareBlock(a, b *linkage.Name) bool {
	has := map[string]bool{}
	for _, k := range linkage.Blocks(a) {
		has[k] = true
	}
	for _, k := range linkage.Blocks(b) {
		if has[k] {
			return true
		}
	}
	return false
}

func (r *Resolution) tally(way string, p NamePair, v linkage.Verdict, apart bool) {
	if r.All[way] == nil {
		r.All[way] = &Tally{}
	}
	if r.Kinds[p.Kind] == nil {
		r.Kinds[p.Kind] = map[string]*Tally{}
	}
	if r.Kinds[p.Kind][way] == nil {
		r.Kinds[p.Kind][way] = &Tally{}
	}
	for _, t := range []*Tally{r.All[way], r.Kinds[p.Kind][way]} {
		t.Pairs++
		if p.Same {
			t.Gold++
		}
		switch v.Outcome {
		case linkage.Link:
			t.Found++
			if p.Same {
				t.Right++
			}
		case linkage.Unclear:
			t.Unclear++
			if p.Same {
				t.UnclearSame++
			}
		case linkage.Vetoed:
			if p.Same {
				t.VetoedSame++
			}
		}
		if apart && (v.Outcome == linkage.Link || v.Outcome == linkage.Unclear) {
			t.BlocksMissing++
		}
	}
}

func (r *Resolution) method(p NamePair, v linkage.Verdict) {
	t := r.Method[v.Method]
	if t == nil {
		t = &MethodTally{}
		r.Method[v.Method] = t
	}
	line := fmt.Sprintf("%-16s %-13s %q, %q: %s %s %.2f", p.Kind, p.Label, p.A, p.B, v.Outcome, v.Method, v.Score)
	add := func(same, other *int) {
		if p.Same {
			*same++
		} else {
			*other++
		}
	}
	switch v.Outcome {
	case linkage.Link:
		add(&t.LinkSame, &t.LinkOther)
	case linkage.Unclear:
		add(&t.UnclearSame, &t.UnclearOther)
	case linkage.Vetoed:
		add(&t.VetoSame, &t.VetoOther)
	}
	switch {
	case v.Outcome == linkage.Link && !p.Same:
		r.Wrong = append(r.Wrong, line)
	case v.Outcome != linkage.Link && p.Same:
		r.Missed = append(r.Missed, line)
	}
}

// Print writes the tables: every way as a whole, what each method decided, and every kind of pair.
func (r *Resolution) Print(w io.Writer) error {
	p := &printer{w: w}
	all := r.All[Ways[0]]
	if all == nil {
		all = &Tally{}
	}
	p.line("%d pairs, %d of one thing; embedder %s, cosine links from %.2f, drops under %.2f\n", all.Pairs, all.Gold, r.Embedder, r.Link, r.Drop)
	p.line("%-26s %5s %5s   %5s  %5s  %5s   %7s %5s %6s %6s", "way", "links", "right", "P", "R", "F1", "unclear", "share", "(same)", "vetoed")
	for _, way := range slices.Concat(Ways, r.Judged) {
		t := r.All[way]
		if t == nil {
			t = &Tally{}
		}
		p.line("%-26s %5d %5d   %.3f  %.3f  %.3f   %7d %.3f %6d %6d", way, t.Found, t.Right, t.Precision(), t.Recall(), t.F1(), t.Unclear, of(t.Unclear, t.Pairs), t.UnclearSame, t.VetoedSame)
	}
	p.line("\nvetoed: pairs of one thing that no tier may link. Pairs that a method finds and that share no block: %d", missing(r))
	p.line("\n%-18s %5s %5s   %5s  %5s   %14s %14s", "method", "links", "right", "P", "R", "unclear (same)", "vetoed (same)")
	for _, m := range sortedKeys(r.Method) {
		t := r.Method[m]
		name := string(m)
		if name == "" {
			name = "(none)"
		}
		c := Count{Right: t.LinkSame, Found: t.LinkSame + t.LinkOther, Gold: all.Gold}
		p.line("%-18s %5d %5d   %.3f  %.3f   %7d %6d %7d %6d", name, c.Found, c.Right, c.Precision(), of(c.Right, c.Gold), t.UnclearSame+t.UnclearOther, t.UnclearSame,
			t.VetoSame+t.VetoOther, t.VetoSame)
	}
	r.printBands(p)
	p.line("\n%-16s %5s %5s   %-19s  %-19s  %-19s  %-19s", "kind", "pairs", "same", Ways[0], Ways[1], Ways[2], Ways[3])
	p.line("%-30s", "                               P     R     F1       P     R     F1       P     R     F1       P     R     F1")
	for _, k := range sortedKeys(r.Kinds) {
		line := fmt.Sprintf("%-16s %5d %5d ", k, r.Kinds[k][Ways[0]].Pairs, r.Kinds[k][Ways[0]].Gold)
		for _, way := range Ways {
			t := r.Kinds[k][way]
			line += fmt.Sprintf("  %.3f %.3f %.3f  ", t.Precision(), t.Recall(), t.F1())
		}
		p.line("%s", line)
	}
	return p.err
}

func missing(r *Resolution) int {
	if t := r.All["methods"]; t != nil {
		return t.BlocksMissing
	}
	return 0
}

func of(a, b int) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}

func sortedKeys[K ~string, V any](m map[K]V) []K {
	out := make([]K, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	sort.Slice(out, func(i, j int) bool { return out[i] < out[j] })
	return out
}

// printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}
