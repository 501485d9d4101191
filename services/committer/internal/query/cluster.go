package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// Bounds of a cluster, and of what a reply says of it.
const (
	maxMembers   = 200
	maxLinks     = 2000
	maxMatches   = 20_000 // rows that are looked at
	maxShown     = 500
	maxUnclear   = 50
	namesTimeout = 5 * time.Second // a cluster is shown without an embedder that takes longer
)

// Names are the vectors of names.
type Names interface {
	// NameVectors embeds names with the embedder of a graph, and says under which cosine two names are of two things.
	NameVectors(ctx context.Context, graph string, names []string) (v [][]float32, drop float64, err error)
}

// WithNames lets clusters keep names apart that are not alike although likeness links them over others. It is called before the first query.
func (q *Queries) WithNames(n Names) *Queries {
	q.names = n
	return q
}

type pair [2]string

func pairOf(a, b string) pair {
	if b < a {
		a, b = b, a
	}
	return pair{a, b}
}

// component is everything that hangs together with an entity over links, whether it may or not.
type component struct {
	v        *view
	ids      []string // in the order found, then sorted
	entities map[string]store.EntityFold
	links    map[pair]store.Match
	unclear  []store.Match
	apart    map[pair]string // that must not be in one cluster, and why
	rows     int
	cut      bool
	// unchecked says why no cosine was looked at.
	unchecked string
}

// cluster is the part of a component that is one thing with an entity.
type cluster struct {
	members []store.EntityFold // by id
	links   []store.Match      // strongest first
	leftOut []store.Match      // weakest first
	sides   [][2][]string      // of leftOut: what its ends are in one cluster with
	unclear []store.Match      // of its members, strongest first
	of      *component
}

// clusterOf finds the cluster of an entity, which is of itself alone where nothing links it.
func (v *view) clusterOf(e store.EntityFold) (*cluster, error) {
	c := &component{v: v, entities: map[string]store.EntityFold{e.ID: e}, links: map[pair]store.Match{}, apart: map[pair]string{}, ids: []string{e.ID}}
	for i := 0; i < len(c.ids); i++ {
		if err := c.follow(c.ids[i]); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.ids)
	if len(c.links) == 0 {
		return c.part(e.ID, nil, nil), nil
	}
	if err := c.keepApart(); err != nil {
		return nil, err
	}
	apart := make([]linkage.Pair, 0, len(c.apart))
	for p := range c.apart {
		apart = append(apart, linkage.Pair{A: p[0], B: p[1]})
	}
	scored := make([]linkage.ScoredLink, 0, len(c.links))
	for p, m := range c.links {
		scored = append(scored, linkage.ScoredLink{A: p[0], B: p[1], Score: strength(m), Method: linkage.Method(m.Method)})
	}
	clusters, removed := linkage.Clusters(scored, apart)
	return c.part(e.ID, clusters, removed), nil
}

// strength orders links by their scores as they are shown: what a person confirmed is stronger than all that was found.
func strength(m store.Match) float64 {
	s := graph.Round6(m.Score)
	if m.State() == store.MatchConfirmed {
		s++
	}
	return s
}

// follow looks at every match of an entity.
func (c *component) follow(id string) error {
	return c.v.sn.Matches(id, func(m store.Match) error {
		if c.rows++; c.rows > maxMatches {
			c.cut = true
			return store.ErrStop
		}
		if err := c.v.tick(); err != nil {
			return err
		}
		other := m.A
		if other == id {
			other = m.B
		}
		switch {
		case m.Linked():
			return c.link(m, other)
		case m.State() == store.MatchRejected:
			c.apart[pairOf(m.A, m.B)] = whyRejected
		default:
			c.unclear = append(c.unclear, m)
		}
		return nil
	})
}

func (c *component) link(m store.Match, other string) error {
	p := pairOf(m.A, m.B)
	if _, ok := c.links[p]; ok {
		return nil
	}
	if _, ok := c.entities[other]; !ok {
		if len(c.ids) >= maxMembers {
			c.cut = true
			return nil
		}
		e, ok, err := c.v.sn.Entity(other)
		if err != nil || !ok {
			return err
		}
		c.entities[other] = e
		c.ids = append(c.ids, other)
	}
	if len(c.links) >= maxLinks {
		c.cut = true
		return nil
	}
	c.links[p] = m
	return nil
}

// part is the cluster of an entity. Ends of a link that was left out are in two clusters.
func (c *component) part(id string, clusters [][]string, removed []linkage.ScoredLink) *cluster {
	with := func(id string) []string {
		if i := slices.IndexFunc(clusters, func(l []string) bool { _, ok := slices.BinarySearch(l, id); return ok }); i >= 0 {
			return clusters[i]
		}
		return []string{id}
	}
	out := &cluster{of: c}
	ids := with(id)
	in := make(map[string]bool, len(ids))
	for _, m := range ids {
		in[m] = true
		out.members = append(out.members, c.entities[m])
	}
	for p, m := range c.links {
		if in[p[0]] && in[p[1]] {
			out.links = append(out.links, m)
		}
	}
	slices.SortFunc(out.links, stronger)
	for _, l := range removed {
		if in[l.A] || in[l.B] {
			out.leftOut = append(out.leftOut, c.links[pairOf(l.A, l.B)])
			out.sides = append(out.sides, [2][]string{with(l.A), with(l.B)})
		}
	}
	for _, m := range c.unclear {
		if in[m.A] || in[m.B] {
			out.unclear = append(out.unclear, m)
		}
	}
	slices.SortFunc(out.unclear, stronger)
	out.unclear = slices.Compact(out.unclear) // each is met at both its ends
	return out
}

// why says which members of two clusters keep them apart: the first by their ids.
func (c *component) why(some, others []string) string {
	for _, a := range some {
		for _, b := range others {
			if why := c.apart[pairOf(a, b)]; why != "" {
				x, y := c.entities[a], c.entities[b]
				return fmt.Sprintf("%s and %s %s", x.Display(), y.Display(), why)
			}
		}
	}
	return ""
}

func stronger(a, b store.Match) int {
	return cmp.Or(cmp.Compare(strength(b), strength(a)), strings.Compare(a.A, b.A), strings.Compare(a.B, b.B))
}

const whyRejected = "were rejected"

// keepApart finds the pairs that must not be in one cluster. What a person confirmed, only a rejection parts; ends of a link of their own
// are parted by nothing else either.
func (c *component) keepApart() error {
	if len(c.ids) < 3 {
		return nil
	}
	if err := c.decided(); err != nil {
		return err
	}
	confirmed := c.sets(func(m store.Match) bool { return m.State() == store.MatchConfirmed })
	free := func(a, b string) bool {
		_, linked := c.links[pairOf(a, b)]
		return linked || confirmed[a] == confirmed[b]
	}
	names := make([]linkage.Name, len(c.ids))
	for i, id := range c.ids {
		e := c.entities[id]
		names[i] = linkage.Prepare(e.Label, e.Display(), nil)
	}
	for i, a := range c.ids {
		for j := i + 1; j < len(c.ids); j++ {
			if err := c.v.tick(); err != nil {
				return err
			}
			b := c.ids[j]
			if free(a, b) {
				continue
			}
			if v := linkage.Compare(&names[i], &names[j], linkage.Options{}); v.Outcome == linkage.Vetoed {
				c.keep(a, b, fmt.Sprintf("exclude each other (%s)", v.Method))
			}
		}
	}
	return c.unlike(free)
}

// keep notes a pair, with the first reason that there is.
func (c *component) keep(a, b, why string) {
	if p := pairOf(a, b); c.apart[p] == "" {
		c.apart[p] = why
	}
}

// decided are the pairs of the component that a person rejected; one that does not match by itself has no row among the matches.
func (c *component) decided() error {
	for _, id := range c.ids {
		err := c.v.sn.Verdicts(store.Verdict{A: id}, func(d store.Verdict) error {
			if d.A != id {
				return store.ErrStop
			}
			if _, ok := c.entities[d.B]; ok && d.State == store.MatchRejected {
				c.keep(d.A, d.B, whyRejected)
			}
			return c.v.tick()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// unlike are the pairs that hang together by the likeness of names alone, and whose own names are not alike.
func (c *component) unlike(free func(a, b string) bool) error {
	if c.v.names == nil {
		return nil
	}
	cosine := func(m store.Match) bool {
		return m.State() == store.MatchActive && m.Method == string(linkage.Cosine)
	}
	alike := c.sets(cosine)
	named := c.sets(func(m store.Match) bool { return !cosine(m) })
	var pairs []pair
	at := map[string]int{}
	var names []string
	for i, a := range c.ids {
		for _, b := range c.ids[i+1:] {
			if alike[a] != alike[b] || named[a] == named[b] || free(a, b) {
				continue
			}
			pairs = append(pairs, pair{a, b})
			for _, id := range []string{a, b} {
				if _, ok := at[id]; !ok {
					at[id] = len(names)
					e := c.entities[id]
					names = append(names, e.Display())
				}
			}
		}
	}
	if len(pairs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(c.v.ctx, namesTimeout)
	defer cancel()
	v, drop, err := c.v.names.NameVectors(ctx, c.v.sn.Graph(), names)
	if err != nil && c.v.ctx.Err() == nil && (errors.Is(err, vectors.ErrAway) || errors.Is(err, vectors.ErrHubClosed) || ctx.Err() != nil) {
		c.unchecked = err.Error()
		for _, p := range pairs { // in doubt they are not one
			c.keep(p[0], p[1], "cannot be compared now")
		}
		return nil
	}
	if err != nil {
		return err
	}
	for _, p := range pairs {
		if s := embed.Cosine(v[at[p[0]]], v[at[p[1]]]); s < drop {
			c.keep(p[0], p[1], fmt.Sprintf("are not alike (%.2f)", s))
		}
	}
	return nil
}

// sets gives each entity a number that those share with it which hang together over the links that admit lets through.
func (c *component) sets(admit func(store.Match) bool) map[string]int {
	root := map[string]string{}
	find := func(id string) string {
		for root[id] != id {
			root[id] = root[root[id]]
			id = root[id]
		}
		return id
	}
	for _, id := range c.ids {
		root[id] = id
	}
	for p, m := range c.links {
		if admit(m) {
			root[find(p[0])] = find(p[1])
		}
	}
	no, out := map[string]int{}, map[string]int{}
	for _, id := range c.ids {
		r := find(id)
		if _, ok := no[r]; !ok {
			no[r] = len(no)
		}
		out[id] = no[r]
	}
	return out
}

// name is how the cluster is called.
func (c *cluster) name() string {
	best := slices.MinFunc(c.members, func(a, b store.EntityFold) int {
		return cmp.Or(cmp.Compare(b.Mentions, a.Mentions), strings.Compare(a.Display(), b.Display()), strings.Compare(a.ID, b.ID))
	})
	return best.Display()
}

// show fills in what an entity's reply says of its cluster, within a budget.
func (c *cluster) show(b *budget, out *api.EntityReply) (err error) {
	if len(c.unclear) > 0 {
		if out.Unclear, err = c.of.rowsOf(c.unclear, maxUnclear, b); err != nil {
			return err
		}
	}
	out.UnclearTotal = len(c.unclear)
	if len(c.links)+len(c.leftOut) == 0 {
		return nil
	}
	r := &api.Cluster{ID: c.members[0].ID, Name: c.name(), Members: []api.Member{}, LinksTotal: len(c.links), LeftOutTotal: len(c.leftOut), Cut: c.of.cut, Unchecked: c.of.unchecked}
	for _, m := range c.members {
		name := m.Display()
		if !b.take(160 + textCost(name) + textCost(m.Label)) {
			r.Cut = true
			break
		}
		r.Members = append(r.Members, api.Member{ID: m.ID, Name: name, Type: m.Label, Mentions: m.Mentions, Documents: m.Documents})
	}
	if r.Links, err = c.of.rowsOf(c.links, maxShown, b); err != nil {
		return err
	}
	if r.LeftOut, err = c.of.rowsOf(c.leftOut, maxShown, b); err != nil {
		return err
	}
	for i := range r.LeftOut {
		if why := c.of.why(c.sides[i][0], c.sides[i][1]); b.take(12 + textCost(why)) {
			r.LeftOut[i].Why = why
		}
	}
	out.Cluster = r
	return nil
}

// rowsOf makes rows with the names of both ends.
func (c *component) rowsOf(list []store.Match, limit int, b *budget) ([]graph.MatchRow, error) {
	out := []graph.MatchRow{}
	for _, m := range list[:min(len(list), limit)] {
		row := matchRow(m)
		var err error
		if row.AName, err = c.nameOf(m.A); err != nil {
			return nil, err
		}
		if row.BName, err = c.nameOf(m.B); err != nil {
			return nil, err
		}
		if !b.take(300 + textCost(row.AName) + textCost(row.BName)) {
			break
		}
		out = append(out, row)
	}
	return out, nil
}

func (c *component) nameOf(id string) (string, error) {
	if e, ok := c.entities[id]; ok {
		return e.Display(), nil
	}
	return c.v.nameOf(id)
}
