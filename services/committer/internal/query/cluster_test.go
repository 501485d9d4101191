package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/services/committer/internal/store"
	"github.com/factmill/factmill/services/committer/internal/vectors"
)

// link commits matches, "A ~ B method score state", of entities as entID names them; a state of confirmed or rejected is a person's. A
// method of - decides about a pair that does not match.
func (d *desk) link(rows ...string) uint64 {
	d.tb.Helper()
	txn, err := d.st.Begin(context.Background(), g)
	require.NoError(d.tb, err)
	for _, r := range rows {
		a, rest, _ := strings.Cut(r, " ~ ")
		b, rest, _ := strings.Cut(rest, " | ")
		var method, state string
		var score float64
		_, err := fmt.Sscan(rest, &method, &score, &state)
		require.NoError(d.tb, err, r)
		m := store.Match{A: entID(a), B: entID(b), Method: strings.ReplaceAll(method, "_", " "), Score: score, Found: state}
		if state == store.MatchConfirmed || state == store.MatchRejected {
			m.Found = store.MatchActive
			_, err := txn.DecideMatch(store.Verdict{A: m.A, B: m.B, State: state})
			require.NoError(d.tb, err)
		}
		if method != "-" {
			_, err = txn.PutMatch(m)
			require.NoError(d.tb, err)
		}
	}
	done, err := txn.Finish(context.Background(), nil)
	require.NoError(d.tb, err)
	return done.Seq
}

// cosines are Names whose vectors are given by name; of drop .8.
type cosines struct {
	v    map[string][]float32
	fail error
	ask  int
}

func (c *cosines) NameVectors(_ context.Context, graph string, names []string) (out [][]float32, drop float64, err error) {
	c.ask++
	for _, n := range names {
		out = append(out, c.v[n])
	}
	return out, 0.8, c.fail
}

func shown(list []graph.MatchRow) []string {
	out := []string{}
	for _, m := range list {
		names := []string{m.AName, m.BName}
		slices.Sort(names)
		out = append(out, fmt.Sprintf("%s ~ %s %s %g %s", names[0], names[1], m.Method, m.Score, m.State))
	}
	return out
}

func memberNames(list []api.Member) []string {
	out := []string{}
	for _, m := range list {
		out = append(out, m.Name)
	}
	slices.Sort(out)
	return out
}

func (d *desk) resolved(e string) api.EntityReply {
	d.tb.Helper()
	got, err := d.q.Entity(context.Background(), g, api.EntityGet{ID: entID(e)})
	require.NoError(d.tb, err)
	return got
}

const (
	turned = "Person:Lovelace Ada"
	short  = "Person:Mrs. Lovelace"
)

func TestResolvedView(t *testing.T) {
	d := newDesk(t)
	a, b := corpus()
	c := newDoc("c", "Lovelace Ada knew Charles Babbage. Mrs. Lovelace knew Ada Lovelace. Babbage Charles.").say(turned, charles, short, ada, "Person:Babbage Charles").
		relate("KNOWS", turned, charles, "Lovelace Ada knew Charles Babbage.").relate("KNOWS", turned, ada, "knew Ada Lovelace")
	before := d.commit(a, b, c)
	plain := d.resolved(ada)
	require.Nil(t, plain.Cluster, "nothing is linked")
	require.Empty(t, plain.Unclear)
	d.link(ada+" ~ "+turned+" | order 0.985 active", ada+" ~ "+short+" | short_name 0.7 unclear", turned+" ~ Person:Babbage Charles | typo 0.4 unclear",
		charles+" ~ Person:Babbage Charles | order 0.985 confirmed")

	got := d.resolved(ada)
	require.Equal(t, plain.Entity, got.Entity)
	least := min(entID(ada), entID(turned))
	require.Equal(t, least, got.Cluster.ID)
	require.Equal(t, "Ada Lovelace", got.Cluster.Name, "it is mentioned most")
	members := []api.Member{{ID: entID(ada), Name: "Ada Lovelace", Type: "Person", Mentions: 4, Documents: 3}, {ID: entID(turned), Name: "Lovelace Ada", Type: "Person", Mentions: 1, Documents: 1}}
	if least != entID(ada) {
		slices.Reverse(members)
	}
	require.Equal(t, members, got.Cluster.Members)
	require.Equal(t, []string{"Ada Lovelace ~ Lovelace Ada order 0.985 active"}, shown(got.Cluster.Links))
	require.Equal(t, fingerprint.MatchID(entID(ada), entID(turned)), got.Cluster.Links[0].ID, "how it is taken apart")
	require.Equal(t, []graph.MatchRow{}, got.Cluster.LeftOut)
	require.False(t, got.Cluster.Cut)
	require.Equal(t, []string{"Ada Lovelace ~ Mrs. Lovelace short name 0.7 unclear", "Babbage Charles ~ Lovelace Ada typo 0.4 unclear"}, shown(got.Unclear))
	require.Equal(t, 2, got.UnclearTotal)
	var relations []string
	for _, r := range got.Relations {
		relations = append(relations, r.SourceName+" "+r.Type+" "+r.TargetName)
	}
	require.Equal(t, []string{"Ada Lovelace WORKS_FOR Acme Ltd", "Charles Babbage KNOWS Ada Lovelace"}, relations[:2], "its own come first")
	require.ElementsMatch(t, []string{"Lovelace Ada KNOWS Charles Babbage", "Lovelace Ada KNOWS Ada Lovelace"}, relations[2:], "one between members comes once")
	require.Equal(t, 4, got.RelationsTotal)

	other := d.resolved(turned)
	require.Equal(t, got.Cluster, other.Cluster, "the same from each member")
	require.Equal(t, "Lovelace Ada", other.Entity.Name)
	require.Equal(t, 4, other.RelationsTotal)
	require.Equal(t, []string{"Babbage Charles ~ Charles Babbage order 0.985 confirmed"}, shown(d.resolved(charles).Cluster.Links))

	bare, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Raw: true})
	require.NoError(t, err)
	bare.Seq = plain.Seq
	require.Equal(t, plain, bare)
	require.Equal(t, 3, bare.RelationsTotal)
	was, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), AsOf: before})
	require.NoError(t, err)
	require.Nil(t, was.Cluster, "as of a commit before the link")
	one, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(ada), Limit: 1})
	require.NoError(t, err)
	require.Len(t, one.Relations, 1)
	require.Equal(t, 4, one.RelationsTotal)

	d.link(ada + " ~ " + turned + " | order 0.985 rejected")
	require.Nil(t, d.resolved(ada).Cluster, "taken apart")
	require.Equal(t, 3, d.resolved(ada).RelationsTotal)
}

// What must not be in one cluster is not, whatever links over others.
func TestClusterKeepsApart(t *testing.T) {
	x, y, z := "Person:Ana Xu", "Person:Bea Yu", "Person:Cid Zu"
	v := map[string][]float32{"Ana Xu": {1, 0}, "Bea Yu": {0.6, 0.8}, "Cid Zu": {0.1, 0.99498743}}
	for _, c := range []struct {
		name    string
		links   []string
		names   *cosines
		of      string
		members []string
		out     []string
		why     string
	}{
		{"a chain of likeness", []string{x + " ~ " + y + " | cosine 0.95 active", y + " ~ " + z + " | cosine 0.96 active"}, &cosines{v: v}, x,
			[]string{"Ana Xu"}, []string{"Ana Xu ~ Bea Yu cosine 0.95 active"}, ""},
		{"its other end", []string{x + " ~ " + y + " | cosine 0.95 active", y + " ~ " + z + " | cosine 0.96 active"}, &cosines{v: v}, z,
			[]string{"Bea Yu", "Cid Zu"}, []string{"Ana Xu ~ Bea Yu cosine 0.95 active"}, ""},
		{"a chain of named methods", []string{x + " ~ " + y + " | cosine 0.95 active", y + " ~ " + z + " | alias 0.97 active"}, &cosines{v: v}, x,
			[]string{"Ana Xu", "Bea Yu", "Cid Zu"}, []string{}, ""},
		{"a link that a person confirmed", []string{x + " ~ " + y + " | cosine 0.95 confirmed", y + " ~ " + z + " | cosine 0.96 active"}, &cosines{v: v}, x,
			[]string{"Ana Xu", "Bea Yu", "Cid Zu"}, []string{}, ""},
		{"no embedder", []string{x + " ~ " + y + " | cosine 0.95 active", y + " ~ " + z + " | cosine 0.96 active"}, nil, x,
			[]string{"Ana Xu", "Bea Yu", "Cid Zu"}, []string{}, ""},
		{"an embedder that is away", []string{x + " ~ " + y + " | cosine 0.95 active", y + " ~ " + z + " | cosine 0.96 active"},
			&cosines{v: v, fail: fmt.Errorf("%w: refused", vectors.ErrAway)}, x, []string{"Ana Xu"}, []string{"Ana Xu ~ Bea Yu cosine 0.95 active"}, "refused"},
		{"rejected", []string{x + " ~ " + y + " | alias 0.95 active", y + " ~ " + z + " | alias 0.94 active", x + " ~ " + z + " | alias 0.99 rejected"}, nil, x,
			[]string{"Ana Xu", "Bea Yu"}, []string{"Bea Yu ~ Cid Zu alias 0.94 active"}, ""},
		{"rejected, and no match", []string{x + " ~ " + y + " | alias 0.95 active", y + " ~ " + z + " | alias 0.94 active", x + " ~ " + z + " | - 0 rejected"}, nil, x,
			[]string{"Ana Xu", "Bea Yu"}, []string{"Bea Yu ~ Cid Zu alias 0.94 active"}, ""},
		{"confirmed is stronger", []string{x + " ~ " + y + " | alias 0.95 active", y + " ~ " + z + " | alias 0.1 confirmed", x + " ~ " + z + " | - 0 rejected"}, nil, y,
			[]string{"Bea Yu", "Cid Zu"}, []string{"Ana Xu ~ Bea Yu alias 0.95 active"}, ""},
		{"numbers", []string{"Person:Task 5 ~ Person:Task | alias 0.97 active", "Person:Task ~ Person:Task 6 | alias 0.96 active"}, nil, "Person:Task 5",
			[]string{"Task", "Task 5"}, []string{"Task ~ Task 6 alias 0.96 active"}, ""},
		{"numbers, and a person knows better", []string{"Person:Task 5 ~ Person:Task 6 | numbers 0.5 confirmed"}, nil, "Person:Task 5",
			[]string{"Task 5", "Task 6"}, []string{}, ""},
		{"numbers, and a person knows better over another", []string{"Person:Task 5 ~ Person:Task | alias 0.97 confirmed", "Person:Task ~ Person:Task 6 | alias 0.96 confirmed"},
			nil, "Person:Task 5", []string{"Task", "Task 5", "Task 6"}, []string{}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t)
			d.commit(newDoc("a", "Ana Xu, Bea Yu, Cid Zu.").say(x, y, z), newDoc("b", "Task 5, Task 6, Task.").say("Person:Task 5", "Person:Task 6", "Person:Task"))
			d.link(c.links...)
			if c.names != nil {
				d.q.WithNames(c.names)
			}
			got := d.resolved(c.of)
			require.Equal(t, c.members, memberNames(got.Cluster.Members))
			require.Equal(t, c.out, shown(got.Cluster.LeftOut))
			for _, m := range got.Cluster.LeftOut {
				require.Regexp(t, `^(Ana Xu and Cid Zu|Cid Zu and Ana Xu) (cannot be compared now|are not alike \(0\.10\)|were rejected)$|^Task [56] and Task [56] exclude each other \(numbers\)$`, m.Why)
			}
			require.Contains(t, got.Cluster.Unchecked, c.why)
			require.Equal(t, c.why == "", got.Cluster.Unchecked == "")
		})
	}
	d := newDesk(t)
	d.commit(newDoc("a", "Ana Xu, Bea Yu, Cid Zu.").say(x, y, z))
	d.link(x+" ~ "+y+" | cosine 0.95 active", y+" ~ "+z+" | cosine 0.96 active")
	d.q.WithNames(&cosines{fail: errors.New("disk")})
	_, err := d.q.Entity(t.Context(), g, api.EntityGet{ID: entID(x)})
	require.EqualError(t, err, "disk", "an error is an error")
	own := &cosines{v: v}
	d.q.WithNames(own)
	d.link(x + " ~ " + z + " | cosine 0.95 active")
	require.Len(t, d.resolved(x).Cluster.Members, 3)
	require.Zero(t, own.ask, "each pair has a link of its own")
}

// A cluster is the same from each of its members, and whatever the order of documents and links.
func TestClusterIsOfNoOrder(t *testing.T) {
	var all []string
	v := map[string][]float32{}
	for i, n := range []string{"Ana Xu", "Bea Yu", "Cid Zu", "Dee Wu", "Eve Lu", "Task 5", "Task 6", "Task"} {
		all = append(all, "Person:"+n)
		v[n] = []float32{[]float32{1, 0.6, 0.1, 0.8}[i%4], []float32{0, 0.8, 0.99498743, 0.6}[i%4]}
	}
	rapid.Check(t, func(rt *rapid.T) {
		var rows []string
		for i, a := range all {
			for _, b := range all[i+1:] {
				if rapid.IntRange(0, 2).Draw(rt, "link") == 0 {
					rows = append(rows, fmt.Sprintf("%s ~ %s | %s %g %s", a, b, rapid.SampledFrom([]string{"cosine", "alias", "model"}).Draw(rt, "method"),
						rapid.SampledFrom([]float64{0.9, 0.95}).Draw(rt, "score"), rapid.SampledFrom([]string{"active", "active", "unclear", "confirmed", "rejected"}).Draw(rt, "state")))
				}
			}
		}
		read := func(rows, entities []string) map[string]string {
			d := newDeskWith(t, store.Options{Dir: "d", FS: vfs.NewMem()})
			defer d.st.Close()
			d.q.WithNames(&cosines{v: v})
			for i, e := range entities {
				_, name, _ := strings.Cut(e, ":")
				d.commit(newDoc(fmt.Sprint(i), name+".").say(e))
			}
			for _, r := range rows {
				d.link(r)
			}
			out := map[string]string{}
			for _, e := range all {
				r := d.resolved(e)
				if r.Cluster == nil {
					continue
				}
				b, err := json.Marshal(r.Cluster)
				require.NoError(rt, err)
				out[e] = string(b)
				require.True(rt, slices.ContainsFunc(r.Cluster.Members, func(m api.Member) bool { return m.ID == entID(e) }))
				for _, m := range r.Cluster.Members {
					again, err := d.q.Entity(context.Background(), g, api.EntityGet{ID: m.ID})
					require.NoError(rt, err)
					require.Equal(rt, r.Cluster, again.Cluster, "%s from %s", e, m.Name)
				}
				for _, l := range append(slices.Clone(r.Cluster.Links), r.Cluster.LeftOut...) {
					require.Contains(rt, []string{"active", "confirmed"}, l.State)
				}
			}
			return out
		}
		want := read(rows, all)
		require.Equal(rt, want, read(rapid.Permutation(rows).Draw(rt, "rows"), rapid.Permutation(all).Draw(rt, "entities")))
	})
}

// More than the bounds is said to be more, and the reply stays small.
func TestClusterBounds(t *testing.T) {
	d := newDesk(t)
	text, rows := "Hub. ", []string{}
	x := newDoc("a", "")
	for i := range maxMembers + 50 {
		text += fmt.Sprintf("Spoke %s. ", strings.Repeat("x", i+1))
	}
	x = newDoc("a", text).say("Person:Hub")
	for i := range maxMembers + 50 {
		e := "Person:Spoke " + strings.Repeat("x", i+1)
		x.mentionAt(e, "Hub", 0, 0)
		rows = append(rows, "Person:Hub ~ "+e+" | alias 0.97 active")
	}
	d.commit(x)
	d.link(rows...)
	got := d.resolved("Person:Hub")
	require.True(t, got.Cluster.Cut)
	require.Len(t, got.Cluster.Members, maxMembers)
	require.Equal(t, maxMembers-1, got.Cluster.LinksTotal)
	require.Less(t, sizeOf(got), MaxReply)
}

func TestSearchShowsAClusterOnce(t *testing.T) {
	d, n := newDesk(t), &near{}
	twins := []string{"Person:Mara Velt", "Person:Velt Mara", "Person:Mara J. Velt"}
	a := newDoc("a", "Mara Velt met Velt Mara. Mara Velt left.").say(twins[:2]...)
	b := newDoc("b", "Mara J. Velt met Mara Veltman.").say(twins[2], "Person:Mara Veltman").meta(func(m *graph.Meta) { m.Scope = graph.Scope{"public"} })
	d.commit(a, b)
	n.doc(a)
	n.doc(b)
	d.q.WithVectors(n)
	d.link(twins[0]+" ~ "+twins[1]+" | order 0.985 active", twins[0]+" ~ "+twins[2]+" | middle_name 0.82 confirmed", "Person:Mara Veltman ~ "+twins[0]+" | typo 0.8 unclear")
	for _, mode := range []string{"lexical", "vector", "hybrid"} {
		req := api.Search{Q: "Velt Mara", Mode: mode, Kinds: []string{"entity"}}
		raw := req
		raw.Raw = true
		every, err := d.q.Search(t.Context(), g, raw)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(every.Hits), 3)
		for _, h := range every.Hits {
			require.Nil(t, h.Cluster)
		}
		got, err := d.q.Search(t.Context(), g, req)
		require.NoError(t, err)
		require.Equal(t, len(every.Hits)-2, len(got.Hits), mode)
		first := got.Hits[0]
		if mode == "hybrid" { // each method votes once for the three, at the rank of the best
			require.InDelta(t, 2.0/61, first.Score, 1e-6)
			require.Equal(t, entID(twins[1]), first.ID)
			require.InDelta(t, 2.0/62, got.Hits[1].Score, 1e-6, "the others of the cluster take no ranks")
		} else {
			require.Equal(t, every.Hits[0].ID, first.ID, "the best of them")
			require.Equal(t, every.Hits[0].Score, first.Score)
		}
		require.Equal(t, []string{"Mara J. Velt", "Mara Velt", "Velt Mara"}, memberNames(first.Cluster.Members))
		require.Equal(t, min(entID(twins[0]), entID(twins[1]), entID(twins[2])), first.Cluster.ID)
		for _, h := range got.Hits[1:] {
			require.Nil(t, h.Cluster)
		}
		two := req
		two.Limit = 2
		few, err := d.q.Search(t.Context(), g, two)
		require.NoError(t, err)
		require.Equal(t, []string{found(t, got)[0], "entity Mara Veltman"}, found(t, few), "%s: what is in a cluster takes one place", mode)

		req.Filters.Scope = []string{"public"}
		public, err := d.q.Search(t.Context(), g, req)
		require.NoError(t, err)
		require.Contains(t, found(t, public), "entity Mara J. Velt", "those that the filter shuts out do not take its place")
		for _, h := range public.Hits {
			require.Nil(t, h.Cluster, "the filter leaves nothing of the other members")
		}
	}
}
