package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// formatVersion of the key space. It only rises: the first Open of a program that knows a higher one brings the data directory forward, and
// older programs then refuse it.
//
//	1: the first one.
//	2: every record of a candidate and every match is found by its id, properties with several values, entities with several relations of a
//	   type and the properties that entities have are rows. Format 1 was written without any of them, and later with some.
const formatVersion = 2

// Format is that of the data directories that this program writes.
const Format uint64 = formatVersion

// rowMigration says how far the way to another format has come; it is there only on that way.
const rowMigration = "migration"

// migrateBytes of rows are written at a time on the way to another format.
const migrateBytes = 4 << 20

// progressEvery is how often that way is spoken of.
const progressEvery = 5 * time.Second

// waypoint is what rowMigration holds: everything up to and with After of a pass over a graph is done, and on disk with this row.
type waypoint struct {
	To    uint64 `json:"to"`
	Epoch uint64 `json:"epoch"` // of the last writer: another one makes what was done worthless
	Graph uint32 `json:"graph"`
	Pass  int    `json:"pass"`
	After []byte `json:"after,omitempty"`
	Rows  int    `json:"rows"` // written so far
	// What the passes over this graph have counted so far.
	Conflicts map[string]int `json:"conflicts,omitempty"`
	Decided   map[string]int `json:"decided,omitempty"`
}

// migration brings the graphs of a store forward by one format. It writes rows at each graph's current sequence, in batches that hold the
// waypoint too: cut off at any point, the next Open goes on behind the last batch that reached the disk, and the outcome is the same. Readings of
// earlier sequences are as they were. An older program may have written in between: what depends on other rows is taken away first.
type migration struct {
	s    *Store
	at   waypoint
	sn   *Snapshot
	b    *pebble.Batch
	size int // bytes in b
	said time.Time
}

// migrate brings a store of an older format forward to formatVersion.
func (s *Store) migrate(ctx context.Context, from, epoch uint64) error {
	m := &migration{s: s, at: waypoint{To: formatVersion, Epoch: epoch}, said: s.opt.Now()}
	row, err := s.systemRow(rowMigration)
	if err != nil {
		return err
	}
	goesOn := false
	if row != nil {
		var at waypoint
		if err := json.Unmarshal(row, &at); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrCorrupt, describe(systemKey(rowMigration)), err)
		}
		if at.To == formatVersion && at.Epoch == epoch { // else an older program wrote meanwhile, or one in between began
			m.at, goesOn = at, true
		}
	}
	s.opt.Log.Warn("bringing the store to a newer format: older versions cannot open it afterwards", "dir", s.opt.Dir, "from", from, "to", formatVersion, "goes_on", goesOn)
	if err := m.run(ctx); err != nil {
		return fmt.Errorf("bring %s from format %d to %d (the next start goes on with it): %w", s.opt.Dir, from, formatVersion, err)
	}
	s.opt.Log.Warn("the store has the newer format", "dir", s.opt.Dir, "format", formatVersion, "rows", m.at.Rows)
	return nil
}

func (m *migration) run(ctx context.Context) error {
	graphs := slices.Sorted(maps.Keys(m.s.byID))
	for _, no := range graphs {
		if no < m.at.Graph {
			continue
		}
		if no > m.at.Graph {
			m.at = waypoint{To: m.at.To, Epoch: m.at.Epoch, Graph: no, Rows: m.at.Rows}
		}
		for m.at.Pass < len(passes) {
			for more := true; more; {
				if err := ctx.Err(); err != nil {
					return err
				}
				if err := m.s.space.check(); err != nil {
					return err
				}
				var err error
				if more, err = m.batch(m.s.byID[no], passes[m.at.Pass], no == graphs[len(graphs)-1]); err != nil {
					return fmt.Errorf("graph %s, %s: %w", m.s.byID[no].name, passes[min(m.at.Pass, len(passes)-1)].name, err)
				}
			}
		}
	}
	if len(graphs) == 0 {
		return m.last(m.s.db.NewBatch())
	}
	return nil
}

// batch does a part of a pass and makes the waypoint say so. more: the pass is not at its end. The last batch of the last graph raises the format.
func (m *migration) batch(g *graphState, p pass, lastGraph bool) (more bool, err error) {
	m.sn = newSnapshot(m.s, g, g.current.Load())
	defer func() { err = errorsJoin(err, m.sn.Close()) }()
	m.b, m.size = m.s.db.NewBatch(), 0
	defer m.b.Close()
	if more, err = m.walk(p); err != nil {
		return false, err
	}
	if !more {
		m.at.Pass, m.at.After = m.at.Pass+1, nil
	}
	graphDone := m.at.Pass == len(passes)
	if graphDone {
		if err := m.counts(); err != nil {
			return false, err
		}
	}
	m.tell(g, p)
	if graphDone && lastGraph {
		return false, m.last(m.b)
	}
	row, err := encodeJSON(m.at)
	if err != nil {
		return false, err
	}
	if err := m.b.Set(systemKey(rowMigration).end(), row, nil); err != nil {
		return false, fmt.Errorf("write %s: %w", rowMigration, err)
	}
	return more, m.s.apply(m.b, true)
}

// last writes a batch that raises the format, and waits for the disk.
func (m *migration) last(b *pebble.Batch) error {
	err := errors.Join(b.Delete(systemKey(rowMigration).end(), nil), b.Set(systemKey(rowFormat).end(), number(formatVersion), nil))
	if err != nil {
		return fmt.Errorf("raise format: %w", err)
	}
	return m.s.apply(b, true)
}

func (m *migration) tell(g *graphState, p pass) {
	level := m.s.opt.Log.Debug
	if now := m.s.opt.Now(); now.Sub(m.said) >= progressEvery {
		m.said, level = now, m.s.opt.Log.Info
	}
	level("on the way to a newer format", "graph", g.name, "part", p.name, "parts_done", m.at.Pass, "parts", len(passes), "rows", m.at.Rows)
}

// walk goes over the rows of a pass, group by group, until the batch is full.
func (m *migration) walk(p pass) (more bool, err error) {
	prefix := m.sn.key(p.space)
	var from, first key
	if m.at.After != nil {
		if from = after(m.at.After); from == nil {
			return false, nil
		}
	}
	var val []byte
	group, n := key(nil), 0
	done := func() error {
		if n == 0 {
			return nil
		}
		err := p.group(m, group, first, n, val)
		m.at.After, n = group, 0
		return err
	}
	bound := min(migrateBytes, m.s.opt.BatchBytes)
	err = m.sn.scan(prefix, from, func(k key, v []byte) error {
		r := readKey(k)
		p.parts(&r)
		if r.bad {
			return fmt.Errorf("%w: %s", ErrCorrupt, describe(k))
		}
		if gk := k[:len(k)-len(r.b)]; n == 0 || string(gk) != string(group) {
			if err := done(); err != nil {
				return err
			}
			if m.size >= bound {
				more = true
				return ErrStop
			}
			group, first, val = gk.clone(), k.clone(), slices.Clone(v)
		}
		n++
		return nil
	})
	if err == nil && !more {
		err = done()
	}
	return more, err
}

// put writes a row at the current sequence; an empty value removes it.
func (m *migration) put(k key, v []byte) error {
	m.at.Rows++
	m.size += len(k) + len(v) + 32
	if err := m.b.Set(k.with(m.sn.seq), seal(k, v), nil); err != nil {
		return fmt.Errorf("write %s: %w", describe(k), err)
	}
	return nil
}

// systemRow is a copy of a row of the store's own; nil when there is none.
func (s *Store) systemRow(name string) ([]byte, error) {
	v, closer, err := s.db.Get(systemKey(name).end())
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer closer.Close()
	return slices.Clone(v), nil
}

// FormatOf is the format of a data directory that no process has open; 0 where there is none yet. Nothing is changed.
func FormatOf(o Options) (format uint64, err error) {
	o = o.withDefaults()
	if _, err := o.FS.Stat(o.Dir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	d, err := pebble.Peek(o.Dir, o.FS)
	if err != nil {
		return 0, fmt.Errorf("look into %s: %w", o.Dir, err)
	}
	if !d.Exists {
		return 0, nil
	}
	lock, err := pebble.LockDirectory(o.Dir, o.FS)
	if err != nil {
		if lockHeld(err) {
			return 0, fmt.Errorf("%w: %s (another process has it open: %v)", ErrInUse, o.Dir, err)
		}
		return 0, fmt.Errorf("lock data directory %s: %w", o.Dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	s := &Store{opt: o, lock: lock}
	po := s.pebbleOptions()
	po.ReadOnly = true
	if s.db, err = pebble.Open(o.Dir, po); err != nil {
		return 0, fmt.Errorf("look into %s: %w", o.Dir, err)
	}
	format, err = s.systemNumber(rowFormat)
	return format, errors.Join(err, s.db.Close())
}
