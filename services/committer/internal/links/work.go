package links

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/candidates"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// work is one page: entities that are filed and compared one after the other, each with those filed before it, so that every pair is
// compared once, whichever of the two comes first.
type work struct {
	f       *follower
	job     string
	ids     []store.ID
	anew    bool // entities that may have matches although they are not filed
	cleared bool // nothing is filed yet
	ops     []store.Op

	sn      *store.Snapshot
	rules   rules
	source  candidates.CandidateSource
	filed   map[store.ID]named             // by this page, over what is stored; empty: taken out
	blocks  map[block]map[store.ID]bool    // by this page: filed or taken out
	names   map[store.ID]*linkage.Name     // taken apart
	puts    map[[2]store.ID]store.Match    // what was found
	drops   map[[2]store.ID]bool           // matches that do not hold any longer
	partner map[store.ID]map[store.ID]bool // ends of puts, from either side
	asks    map[[2]store.ID]waiting        // pairs for the model
	stats   api.Resolution
	apart   *bool // people told things of one name apart; nil: not read yet
}

// rules are what decides about pairs besides their names.
type rules struct {
	set        settings.Resolver
	link, drop float64
	options    linkage.Options
	judge      string // what judges: "" for nobody
	floor      float64
}

func (w *work) entities(touched []store.Touched) {
	seen := map[store.ID]bool{}
	for _, t := range touched {
		if v, ok := store.ParseID(t.ID); ok && t.Kind == store.TouchedEntity && !seen[v] {
			seen[v] = true
			w.ids = append(w.ids, v)
		}
	}
}

// do compares and writes.
func (w *work) do(ctx context.Context) (err error) {
	w.f.write.Lock()
	defer w.f.write.Unlock()
	if len(w.ids) == 0 {
		return w.f.l.deps.Store.Write(ctx, w.ops, false)
	}
	if v := w.f.l.deps.Vectors; v != nil {
		if w.source, err = v.Source(ctx, w.f.graph, w.rules.near()); err != nil {
			return err
		}
	}
	if w.sn, err = w.f.l.deps.Store.Snapshot(w.f.graph, 0); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.sn.Close()) }()
	w.filed, w.blocks, w.names = map[store.ID]named{}, map[block]map[store.ID]bool{}, map[store.ID]*linkage.Name{}
	w.partner = map[store.ID]map[store.ID]bool{}
	w.puts, w.drops, w.asks = map[[2]store.ID]store.Match{}, map[[2]store.ID]bool{}, map[[2]store.ID]waiting{}
	if w.cleared {
		clear(w.f.names)
	}
	all, err := w.ahead(ctx)
	if err != nil {
		return err
	}
	for i, v := range w.ids {
		if err := w.entity(v, &all[i]); err != nil {
			return fmt.Errorf("entity %s: %w", v, err)
		}
	}
	if err := w.write(ctx); err != nil {
		clear(w.f.names)
		return err
	}
	w.f.remember(w.filed)
	return nil
}

// entity brings one entity up to date. One that is called as it was may have gone and come again, and its matches with it.
func (w *work) entity(v store.ID, a *seen) error {
	was, err := w.nameOf(v)
	if err != nil {
		return err
	}
	now := a.now
	if was != (named{}) {
		w.unfile(v, was)
	}
	if now == (named{}) {
		return nil // its matches went with it
	}
	w.names[v] = a.name
	found, err := w.partners(v, a)
	if err != nil {
		return err
	}
	if was != (named{}) || w.anew { // it may have matches of other times
		if err := w.forget(v, found); err != nil {
			return err
		}
	}
	w.file(v, now, a.name)
	return nil
}

// current is how an entity is compared now; empty when it is gone.
func (w *work) current(v store.ID) (named, error) {
	e, ok, err := w.sn.Entity(v.String())
	if err != nil || !ok || e.Documents == 0 {
		return named{}, err
	}
	n := named{label: e.Label, name: e.Display()}
	if a := w.f.l.deps.Aliases; a != nil {
		aliases, err := a(w.f.graph, e.Label, e.Key)
		if err != nil {
			return n, fmt.Errorf("aliases: %w", err)
		}
		n.aliases = strings.Join(aliases, "\x00")
	}
	return n, nil
}

func (w *work) nameOf(v store.ID) (named, error) {
	if n, ok := w.filed[v]; ok || w.cleared {
		return n, nil
	}
	if n, ok := w.f.names[v]; ok {
		return n, nil
	}
	n, err := w.f.rows.filed(v)
	if err == nil {
		w.f.remember(map[store.ID]named{v: n})
	}
	return n, err
}

// maxPrepared is how many names a page holds taken apart.
const maxPrepared = 1 << 14

// prepare takes a name apart.
func (w *work) prepare(v store.ID, n named) *linkage.Name {
	if p := w.names[v]; p != nil {
		return p
	}
	p := n.prepare()
	if len(w.names) >= maxPrepared {
		clear(w.names)
	}
	w.names[v] = p
	return p
}

func (n named) prepare() *linkage.Name {
	var aliases []string
	if n.aliases != "" {
		aliases = strings.Split(n.aliases, "\x00")
	}
	p := linkage.Prepare(n.label, n.name, aliases)
	return &p
}

// file and unfile keep the blocking keys.
func (w *work) file(v store.ID, n named, name *linkage.Name) {
	w.filed[v] = n
	w.ops = append(w.ops, w.f.rows.op(nameKey(v), n.encode()))
	for _, b := range blocksOf(n.label, linkage.Blocks(name)) {
		w.put(b, v, true)
	}
}

func (w *work) unfile(v store.ID, n named) {
	for _, b := range blocksOf(n.label, linkage.Blocks(w.prepare(v, n))) {
		w.put(b, v, false)
	}
	delete(w.names, v)
	w.filed[v] = named{}
	w.ops = append(w.ops, w.f.rows.del(nameKey(v)))
}

func (w *work) put(b block, v store.ID, in bool) {
	if w.blocks[b] == nil {
		w.blocks[b] = map[store.ID]bool{}
	}
	w.blocks[b][v] = in
	if in {
		w.ops = append(w.ops, w.f.rows.op(blockKey(b, v), []byte{}))
	} else {
		w.ops = append(w.ops, w.f.rows.del(blockKey(b, v)))
	}
}

// partners compares an entity with all that are filed and share a blocking key with it or lie near it.
func (w *work) partners(v store.ID, a *seen) (map[store.ID]bool, error) {
	n, name, near := a.now, a.name, a.near
	if a.cut {
		w.stats.CapLeft++
	}
	others := w.sharing(v, a.blocks, a.members)
	for o := range near {
		others = append(others, o)
	}
	slices.SortFunc(others, func(a, b store.ID) int { return bytes.Compare(a[:], b[:]) })
	found := map[store.ID]bool{}
	var asks []waiting
	for _, o := range slices.Compact(others) {
		if apart, err := w.homonyms(v, o); err != nil {
			return nil, err
		} else if apart {
			continue
		}
		is, err := w.nameOf(o)
		if err != nil {
			return nil, err
		}
		if is.label != n.label {
			continue // not filed yet, gone, or another label's of the same hash
		}
		other := w.prepare(o, is)
		w.stats.Compared++
		w.f.l.met.compared.Inc()
		verdict, err := w.compare(n, name, is, other)
		if err != nil {
			return nil, err
		}
		cosine := near[o]
		if cosine >= w.rules.link && linkage.Repeats(name, other) {
			cosine = w.rules.link - 1e-6 // for a person to decide
		}
		m, ask := w.rules.pair(verdict, cosine)
		if ask {
			said, ok, err := w.f.rows.said(pairOf(v, o))
			if err != nil {
				return nil, err
			}
			if ok && said.holds(w.rules.judge, n.name, is.name) {
				m = said.apply(m)
			} else {
				a := waiting{Pair: pairOf(v, o), Label: n.label, A: n.name, B: is.name, Method: m.Method, Score: m.Score, Job: w.job, Review: m.Found != ""}
				if a.Pair[0] != v {
					a.A, a.B = a.B, a.A
				}
				asks = append(asks, a)
			}
		}
		if m.Found != "" {
			p := pairOf(v, o)
			m.A, m.B = p[0].String(), p[1].String()
			w.found(p, m)
			found[o] = true
		}
	}
	w.wait(asks)
	return found, nil
}

// compare compares two names. An alias by which the registry knows several entities is for a person to decide.
func (w *work) compare(a named, x *linkage.Name, b named, y *linkage.Name) (linkage.Verdict, error) {
	v := linkage.Compare(x, y, w.rules.options)
	if two, err := w.listed(v, a.label, x.Key(), y.Key()); err != nil || two {
		v.Method, v.Outcome = MethodRegistry, linkage.Vetoed
		return v, err
	}
	if v.Method != linkage.Alias || v.Outcome != linkage.Link || w.f.l.deps.Ambiguous == nil {
		return v, nil
	}
	for _, n := range []struct{ label, key string }{{a.label, x.Key()}, {b.label, y.Key()}} {
		several, err := w.f.l.deps.Ambiguous(w.f.graph, n.label, n.key)
		if err != nil {
			return v, fmt.Errorf("registry: %w", err)
		}
		if several {
			v.Outcome = linkage.Unclear
		}
	}
	return v, nil
}

// homonyms says whether two are things of one name that people told apart, or one of them and what is undecided: no match is looked for
// between these.
func (w *work) homonyms(v, o store.ID) (bool, error) {
	if w.apart == nil {
		c, err := w.sn.Counts()
		if err != nil {
			return false, err
		}
		some := c.Apart > 0
		w.apart = &some
	}
	if !*w.apart {
		return false, nil
	}
	a, ok, err := w.sn.Entity(v.String())
	if err != nil || !ok {
		return false, err
	}
	b, ok, err := w.sn.Entity(o.String())
	return ok && a.Label == b.Label && a.Key == b.Key, err
}

// MethodRegistry is the method by which two that the registry lists apart are rejected.
const MethodRegistry = "registry"

// listed says whether the registry lists both names of a pair that something speaks for.
func (w *work) listed(v linkage.Verdict, label, x, y string) (bool, error) {
	if w.f.l.deps.Known == nil || v.Outcome != linkage.Link && v.Outcome != linkage.Unclear {
		return false, nil
	}
	for _, k := range []string{x, y} {
		if ok, err := w.f.l.deps.Known(w.f.graph, label, k); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// sharing lists the filed entities that share a blocking key: those that are stored, as members says for each of blocks, and those of this
// page.
func (w *work) sharing(v store.ID, blocks []block, members [][]store.ID) []store.ID {
	seen := map[store.ID]bool{v: true}
	count := make([]int, len(blocks))
	var out []store.ID
	take := func(i int, o store.ID) {
		if o == v {
			return
		}
		if count[i]++; count[i] > w.f.l.cfg.MaxBlock {
			if count[i] == w.f.l.cfg.MaxBlock+1 {
				w.stats.CapLeft++ // at least one is left
			}
			return
		}
		if !seen[o] {
			seen[o] = true
			out = append(out, o)
		}
	}
	for i, b := range blocks {
		for _, o := range members[i] {
			if _, changed := w.blocks[b][o]; !changed {
				take(i, o)
			}
		}
		for o, in := range w.blocks[b] {
			if in {
				take(i, o)
			}
		}
	}
	return out
}

// found notes a match; a pair may be met again when an entity is compared anew.
func (w *work) found(p [2]store.ID, m store.Match) {
	w.lose(p)
	delete(w.drops, p)
	w.puts[p] = m
	w.count(m, 1)
	for i, v := range p {
		if w.partner[v] == nil {
			w.partner[v] = map[store.ID]bool{}
		}
		w.partner[v][p[1-i]] = true
	}
}

// lose takes back what this page found about a pair.
func (w *work) lose(p [2]store.ID) {
	if m, ok := w.puts[p]; ok {
		w.count(m, -1)
		delete(w.puts, p)
	}
	delete(w.asks, p)
}

func (w *work) count(m store.Match, by int) {
	switch {
	case m.Found == store.MatchUnclear:
		w.stats.Unclear += by
	case m.Found == store.MatchRejected:
	case m.Method == string(linkage.Cosine):
		w.stats.Matched.Embedding += by
	case m.Method == MethodModel:
		w.stats.Matched.LLM += by
	default:
		w.stats.Matched.Fuzzy += by
	}
}

// forget drops the matches of an entity that were not found again, with those that are filed: the others find it themselves.
func (w *work) forget(v store.ID, found map[store.ID]bool) error {
	for o := range w.partner[v] { // under the name it had
		if !found[o] {
			w.lose(pairOf(v, o))
		}
	}
	return w.sn.Matches(v.String(), func(m store.Match) error {
		a, _ := store.ParseID(m.A)
		b, _ := store.ParseID(m.B)
		o := a
		if a == v {
			o = b
		}
		if found[o] {
			return nil
		}
		is, err := w.nameOf(o)
		if err != nil || is == (named{}) {
			return err
		}
		w.drops[pairOf(v, o)] = true
		return nil
	})
}

// wait queues pairs for the model, the likeliest first, no more than are allowed an entity.
func (w *work) wait(asks []waiting) {
	slices.SortFunc(asks, func(a, b waiting) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), bytes.Compare(a.Pair[0][:], b.Pair[0][:]), bytes.Compare(a.Pair[1][:], b.Pair[1][:]))
	})
	if most := w.rules.set.JudgePairs; len(asks) > most {
		w.stats.CapLeft += len(asks) - most
		asks = asks[:most]
	}
	for _, a := range asks {
		w.asks[a.Pair] = a
	}
}

func pairOf(a, b store.ID) [2]store.ID {
	if bytes.Compare(b[:], a[:]) < 0 {
		a, b = b, a
	}
	return [2]store.ID{a, b}
}
