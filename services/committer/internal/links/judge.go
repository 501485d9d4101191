package links

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// MethodModel is the method of what a model said.
const MethodModel = "model"

// rules reads what decides about the pairs of a graph.
func (f *follower) rules(ctx context.Context) (r rules, err error) {
	p, err := f.l.deps.Settings(f.graph)
	if err != nil {
		return r, fmt.Errorf("settings: %w", err)
	}
	r.set = p.Resolver.WithDefaults()
	r.options = linkage.Options{TokenSort: r.set.TokenSort}
	r.floor = r.set.ReviewFloor
	if f.l.deps.Judge != nil && r.set.Judges() {
		r.judge = judgeID(p)
	}
	r.link, r.drop = 2, 2 // no cosine decides
	if v := f.l.deps.Vectors; v != nil {
		link, drop, err := v.Thresholds(ctx, f.graph)
		if err != nil {
			return r, err
		}
		r.link, r.drop = r.set.Thresholds(link, drop)
	}
	return r, nil
}

// name says what the rules are: pairs that others decided about are compared anew.
func (r rules) name() string {
	return fmt.Sprintf("%d token_sort=%g link=%g drop=%g floor=%g judge=%q", linkage.Version, r.options.TokenSort, r.link, r.drop, r.floor, r.judge)
}

// judgeID names the model and the instruction that a verdict is of.
func judgeID(p settings.Pipeline) string {
	model, digest := p.JudgeModel()
	return model + "@" + digest
}

// near is the least cosine that is of use: below what waits for a person, only a judge has a use for a pair.
func (r rules) near() float64 {
	if r.judge == "" {
		return min(r.link, max(r.drop, r.floor))
	}
	return r.drop
}

// pair says what a comparison and a cosine (0: below what is looked for) come to. Nothing is found when the match's Found is empty; ask says
// that a model may be asked.
func (r rules) pair(v linkage.Verdict, cosine float64) (m store.Match, ask bool) {
	v = v.WithCosine(cosine, r.link, r.drop)
	m.Method, m.Score = string(v.Method), v.Score
	if v.Method == MethodRegistry {
		m.Found = store.MatchRejected
		return m, false
	}
	switch v.Outcome {
	case linkage.Link:
		m.Found = store.MatchActive
	case linkage.Unclear:
		if v.Method != linkage.Cosine || v.Score >= r.floor {
			m.Found = store.MatchUnclear
		}
		return m, r.judge != ""
	}
	return m, false
}

// waiting is a pair that waits for the model.
type waiting struct {
	Pair   [2]store.ID `json:"-"`
	Seq    uint64      `json:"-"`
	Label  string      `json:"label"`
	A      string      `json:"a"` // names, of the pair's lesser id first
	B      string      `json:"b"`
	Method string      `json:"method"`
	Score  float64     `json:"score"`
	Job    string      `json:"job,omitempty"`
	payer  string      // the job whose budget it is asked on
	Review bool        `json:"review,omitempty"` // it waits for a person too
}

func askKey(seq uint64, p [2]store.ID) []byte {
	k := binary.BigEndian.AppendUint64([]byte("q"), seq)
	return append(append(k, p[0][:]...), p[1][:]...)
}

func saidKey(p [2]store.ID) []byte { return append(append([]byte("v"), p[0][:]...), p[1][:]...) }

// said is what a model said about a pair of names.
type said struct {
	Judge   string `json:"judge"`
	A       string `json:"a"`
	B       string `json:"b"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
	Why     string `json:"why,omitempty"`
	Prompt  string `json:"prompt,omitempty"`
}

func (r rows) said(p [2]store.ID) (s said, ok bool, err error) {
	ok, err = r.load(saidKey(p), &s)
	return s, ok, err
}

// holds says whether it was said by this judge about these names.
func (s said) holds(judge, a, b string) bool {
	return s.Judge == judge && (s.A == a && s.B == b || s.A == b && s.B == a)
}

// apply makes a match of it.
func (s said) apply(m store.Match) store.Match {
	switch s.Verdict {
	case api.VerdictMatch:
		m.Method, m.Found = MethodModel, store.MatchActive
	case api.VerdictNoMatch:
		m.Method, m.Found = MethodModel, store.MatchRejected
	}
	return m
}

// queue adds the pairs of a page that wait for the model.
func (w *work) queue() error {
	for p, a := range w.asks {
		op, err := w.f.rows.json(askKey(w.sn.Seq(), p), a)
		if err != nil {
			return err
		}
		w.ops = append(w.ops, op)
	}
	return nil
}

// queued lists pairs that wait, the oldest first, behind a key.
func (r rows) queued(after []byte, limit int) (out []waiting, last []byte, err error) {
	err = r.st.Scan(r.graph, space, []byte("q"), after, limit, func(k, v []byte) error {
		if len(k) != 1+8+2*idLen {
			return fmt.Errorf("%w: row %x of links", store.ErrCorrupt, k)
		}
		w := waiting{Seq: binary.BigEndian.Uint64(k[1:])}
		copy(w.Pair[0][:], k[9:])
		copy(w.Pair[1][:], k[9+idLen:])
		if err := json.Unmarshal(v, &w); err != nil {
			return fmt.Errorf("%w: row %x of links: %w", store.ErrCorrupt, k, err)
		}
		out, last = append(out, w), slices.Clone(k)
		return nil
	})
	return out, last, err
}

// judge asks the model about the pairs that wait, whenever there are new ones.
func (f *follower) judge(ctx context.Context) error {
	if f.l.deps.Judge == nil {
		return nil
	}
	return f.repeat(ctx, f.asks, "pairs wait for the model", func(err error) { f.report(func(s *Status) { s.JudgeErr = err }) }, f.ask)
}

// ask asks about all that may be asked about.
func (f *follower) ask(ctx context.Context) error {
	for {
		r, err := f.rules(ctx)
		if err != nil {
			return err
		}
		batch, err := f.next(r)
		if err != nil {
			return err
		}
		if len(batch) == 0 {
			return nil
		}
		if err := f.put(ctx, r, batch); err != nil {
			return err
		}
	}
}

// next picks pairs of one job that has requests left, and counts what waits and what its budget postpones. What jobs before it left
// over is asked on the account of the job that was linked last.
func (f *follower) next(r rules) (batch []waiting, err error) {
	waits, postponed, byJob, left := 0, 0, map[string]int{}, map[string]int{}
	linked := f.seen()
	defer func() {
		if err == nil {
			f.counted(linked, waits, postponed, byJob, left)
		}
	}()
	rest := map[string]int{}
	budget := func(job string) (int, error) {
		n, ok := rest[job]
		if !ok {
			s, err := f.rows.stats(job)
			if err != nil {
				return 0, err
			}
			n = max(0, r.set.JudgeBudget-s.LLMRequests)
			rest[job] = n
		}
		return n, nil
	}
	last := f.lastJob()
	var spare []waiting
	for after := []byte(nil); ; {
		page, key, err := f.rows.queued(after, 1000)
		if err != nil {
			return nil, err
		}
		for _, w := range page {
			waits++
			n := 0
			if r.judge != "" {
				if n, err = budget(w.Job); err != nil {
					return nil, err
				}
			}
			switch {
			case n == 0:
				postponed++
				left[w.Job]++
				if w.payer = last; len(spare) < api.MaxJudgePairs {
					spare = append(spare, w)
				}
			default:
				byJob[w.Job]++
			}
			w.payer = cmp.Or(w.payer, w.Job)
			if n > 0 && len(batch) < api.MaxJudgePairs && (len(batch) == 0 || batch[0].Job == w.Job) {
				batch = append(batch, w)
			}
		}
		if len(page) < 1000 {
			break
		}
		after = key
	}
	if len(batch) > 0 || len(spare) == 0 || r.judge == "" {
		return batch, nil
	}
	if n, err := budget(last); err != nil || n == 0 {
		return nil, err
	}
	postponed -= len(spare)
	byJob[last] += len(spare)
	return spare, nil
}

// seen is how many pairs were queued; counted stores a count of the queue unless more were queued meanwhile.
func (f *follower) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queued
}

func (f *follower) counted(seen, waits, postponed int, byJob, left map[string]int) {
	f.report(func(s *Status) {
		if f.queued == seen {
			s.Waiting, s.Postponed, f.byJob, f.left = waits, postponed, byJob, left
		}
	})
}

func (f *follower) lastJob() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

// stands says whether two entities are still called what they were when the pair was queued: else it was compared anew.
func (f *follower) stands(w waiting) (bool, error) {
	for i, name := range [2]string{w.A, w.B} {
		is, err := f.rows.filed(w.Pair[i])
		if err != nil || is.label != w.Label || is.name != name {
			return false, err
		}
	}
	return true, nil
}

// errNoAnswer has the same pairs asked about again, after a pause.
var errNoAnswer = errors.New("the model server answers with errors")

// put puts pairs of one job before the model and writes what it says.
func (f *follower) put(ctx context.Context, r rules, batch []waiting) (err error) {
	set, err := f.l.deps.Settings(f.graph)
	if err != nil {
		return err
	}
	payer := batch[0].payer
	stats, err := f.rows.stats(payer)
	if err != nil {
		return err
	}
	req := api.JudgeRequest{MaxRequests: r.set.JudgeBudget - stats.LLMRequests}
	req.Model, req.ModelDigest = set.JudgeModel()
	var ops []store.Op
	var asked []waiting
	for _, w := range batch {
		ok, err := f.stands(w)
		if err != nil {
			return err
		}
		if !ok {
			ops = append(ops, f.rows.del(askKey(w.Seq, w.Pair)))
			continue
		}
		req.Pairs = append(req.Pairs, api.JudgePair{Label: w.Label, A: w.A, B: w.B})
		asked = append(asked, w)
	}
	if len(asked) == 0 {
		return f.l.deps.Store.Write(ctx, ops, false)
	}
	if e := req.Check(); e != nil {
		return e
	}
	reply, err := f.l.deps.Judge.Judge(ctx, f.graph, req)
	if err != nil {
		return err
	}
	if len(reply.Verdicts) != len(asked) {
		return fmt.Errorf("the judge gave %d verdicts on %d pairs", len(reply.Verdicts), len(asked))
	}
	f.write.Lock()
	defer f.write.Unlock()
	of := map[string]*api.Resolution{} // counters by job
	count := func(job string) (*api.Resolution, error) {
		if of[job] == nil {
			s, err := f.rows.stats(job)
			if err != nil {
				return nil, err
			}
			of[job] = &s
		}
		return of[job], nil
	}
	paid, err := count(payer)
	if err != nil {
		return err
	}
	paid.LLMRequests += reply.Requests
	paid.LLMFailed += reply.Failed
	var puts []store.Match
	answered := 0
	for i, v := range reply.Verdicts {
		w, p := asked[i], req.Pairs[i]
		if v.Why == api.WhyBudget || v.Why == api.WhyModelError { // nothing was said: it waits on
			continue
		}
		answered++
		ops = append(ops, f.rows.del(askKey(w.Seq, w.Pair)))
		s := said{Judge: r.judge, A: p.A, B: p.B, Verdict: v.Verdict, Reason: v.Reason, Why: v.Why, Prompt: reply.PromptID}
		op, err := f.rows.json(saidKey(w.Pair), s)
		if err != nil {
			return err
		}
		ops = append(ops, op)
		m := s.apply(store.Match{A: w.Pair[0].String(), B: w.Pair[1].String(), Method: w.Method, Score: w.Score})
		if m.Found == "" {
			f.l.met.judged.WithLabelValues(api.VerdictUncertain).Inc()
			continue
		}
		f.l.met.judged.WithLabelValues(v.Verdict).Inc()
		if ok, err := f.stands(w); err != nil {
			return err
		} else if !ok {
			continue // it was asked about other names
		}
		own, err := count(w.Job)
		if err != nil {
			return err
		}
		if w.Review {
			own.Unclear--
		}
		if m.Found == store.MatchActive {
			own.Matched.LLM++
		}
		puts = append(puts, m)
	}
	for job, s := range of {
		op, err := f.rows.json(jobKey(job), s)
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	if len(puts) == 0 {
		err = f.l.deps.Store.Write(ctx, ops, true)
	} else {
		err = f.commit(ctx, puts, nil, ops)
	}
	if err == nil && answered == 0 && paid.LLMRequests < r.set.JudgeBudget {
		return errNoAnswer
	}
	return err
}

// Judged is what a model said last about a pair of entities; nil when it was not asked.
func (l *Linker) Judged(graph, a, b string) (*api.MatchJudged, error) {
	x, ok := store.ParseID(a)
	y, ok2 := store.ParseID(b)
	if !ok || !ok2 {
		return nil, nil
	}
	s, ok, err := l.of(graph).rows.said(pairOf(x, y))
	if err != nil || !ok {
		return nil, err
	}
	return &api.MatchJudged{Model: strings.TrimSuffix(s.Judge, "@"), Prompt: s.Prompt, Verdict: s.Verdict, Reason: s.Reason, Why: s.Why}, nil
}
