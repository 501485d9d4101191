package links

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/linkage"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Verify compares every entity anew with those that share a blocking key, and checks that the matches say the same, that every name is
// filed as it is, and that what is filed is there. It checks nothing, ErrBehind, while commits wait to be linked. Matches that only a
// cosine or a model found are checked for the names that they are of.
func (l *Linker) Verify(ctx context.Context, graph string, problem func(api.Problem)) (checked int, err error) {
	f := l.of(graph)
	sn, err := f.still(ctx)
	if err != nil {
		return 0, err
	}
	defer f.write.Unlock()
	defer func() { err = errors.Join(err, sn.Close()) }()
	r, err := f.rules(ctx)
	if err != nil {
		return 0, err
	}
	v := &verifier{w: &work{f: f, sn: sn, rules: r, filed: map[store.ID]named{}, blocks: map[block]map[store.ID]bool{}, names: map[store.ID]*linkage.Name{}},
		tell: func(id, format string, args ...any) {
			problem(api.Problem{Kind: "link", Key: id, Message: fmt.Sprintf(format, args...)})
		}}
	err = sn.EntitiesAll("", func(e store.EntityFold) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		checked++
		id, _ := store.ParseID(e.ID)
		return v.entity(id)
	})
	if err != nil {
		return checked, err
	}
	return checked, v.strangers()
}

// stillTries is how often a moment is looked for in which nothing waits to be linked.
const stillTries = 20

// still holds the linking up at a moment when all that is committed is linked, and returns what is committed; ErrBehind when there is no such moment.
// write must then be unlocked.
func (f *follower) still(ctx context.Context) (*store.Snapshot, error) {
	for range stillTries {
		f.write.Lock()
		sn, err := f.l.deps.Store.Snapshot(f.graph, 0)
		if err != nil {
			f.write.Unlock()
			return nil, err
		}
		at, changed := f.watch("")
		if at.Linked >= sn.Seq() {
			return sn, nil
		}
		f.write.Unlock()
		if err := sn.Close(); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-changed:
		case <-f.l.cfg.After(stillWait):
		}
	}
	at, _ := f.watch("")
	if at.Err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBehind, at.Err)
	}
	return nil, ErrBehind
}

// ErrBehind says that commits wait to be linked.
var ErrBehind = errors.New("links are behind the commits")

const stillWait = 500 * time.Millisecond

type verifier struct {
	w    *work
	tell func(id, format string, args ...any)
}

func (v *verifier) entity(e store.ID) error {
	now, err := v.w.current(e)
	if err != nil {
		return err
	}
	was, err := v.w.f.rows.filed(e)
	if err != nil {
		return err
	}
	if was != now {
		v.tell(e.String(), "it is compared as %q, its name is %q", was.name, now.name)
		return nil
	}
	name := v.w.prepare(e, now)
	for _, b := range blocksOf(now.label, linkage.Blocks(name)) {
		got, err := v.w.f.l.deps.Store.Get(v.w.f.graph, space, blockKey(b, e))
		if err != nil {
			return err
		}
		if got == nil {
			v.tell(e.String(), "it is not filed under one of its blocking keys")
		}
	}
	blocks, members, err := v.w.stored(now.label, name)
	if err != nil {
		return err
	}
	others := v.w.sharing(e, blocks, members)
	want := map[string]bool{}
	for _, o := range others {
		if apart, err := v.w.homonyms(e, o); err != nil {
			return err
		} else if apart {
			continue
		}
		is, err := v.w.f.rows.filed(o)
		if err != nil {
			return err
		}
		if is.label != now.label {
			continue
		}
		verdict, err := v.w.compare(now, name, is, v.w.prepare(o, is))
		if err != nil {
			return err
		}
		m, _ := v.w.rules.pair(verdict, 0)
		if m.Found == "" {
			continue
		}
		p := pairOf(e, o)
		got, ok, err := v.w.sn.Match(p[0].String(), p[1].String())
		if err != nil {
			return err
		}
		want[o.String()] = true
		switch {
		case !ok:
			v.tell(e.String(), "missing: it matches %s by %s", o, m.Method)
		case got.Method != MethodModel && (got.Method != m.Method || got.Found != m.Found):
			v.tell(e.String(), "its match with %s is %s by %s, the names compare %s by %s", o, got.Found, got.Method, m.Found, m.Method)
		}
	}
	if v.w.stats.CapLeft > 0 {
		v.w.stats.CapLeft = 0
		return nil // which pairs were compared depends on their order
	}
	return v.w.sn.Matches(e.String(), func(m store.Match) error {
		o := m.A
		if o == e.String() {
			o = m.B
		}
		if !want[o] && m.Method != string(linkage.Cosine) && m.Method != MethodModel {
			v.tell(e.String(), "its match with %s by %s does not hold", o, m.Method)
		}
		return nil
	})
}

// strangers are filed and not there.
func (v *verifier) strangers() error {
	return v.w.f.l.deps.Store.Scan(v.w.f.graph, space, []byte("n"), nil, 0, func(k, _ []byte) error {
		if len(k) != 1+idLen {
			return fmt.Errorf("%w: row %x of links", store.ErrCorrupt, k)
		}
		e := store.ID(k[1:])
		now, err := v.w.current(e)
		if err == nil && now == (named{}) {
			v.tell(e.String(), "it is compared, and is not there")
		}
		return err
	})
}
