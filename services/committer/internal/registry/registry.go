// Package registry keeps the known entities of a graph: names, aliases and external ids that people gave before, or beside, what
// documents say. Every change raises the registry's revision; a job uses the one it began with.
package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package; its rows, by the first byte of their keys.
const (
	space = byte('R')

	rowHead     = 'h' // → head
	rowEntry    = 'e' // label 0 folded name → row
	rowName     = 'n' // label 0 folded name or alias 0 folded name of the entry → spans
	rowExternal = 'x' // label 0 external id → folded name of the entry
	rowGone     = 't' // revision, name key → time of its end
)

// head of a graph's registry.
type head struct {
	Revision uint64 `json:"revision"`
	// Fingerprint of all changes so far: a store that was made anew has the same revisions with other entries.
	Fingerprint string `json:"fingerprint"`
	Entries     int    `json:"entries"`
}

// row is a stored entry.
type row struct {
	Entry    api.RegistryEntry `json:"entry"`
	Revision uint64            `json:"revision"`
}

func (r row) reply() api.RegistryRow {
	return api.RegistryRow{RegistryEntry: r.Entry, ID: fingerprint.EntityID(r.Entry.Type, fingerprint.Fold(r.Entry.Name)), Revision: r.Revision}
}

// Graphs makes graphs, and knows their schemas.
type Graphs interface {
	Ensure(ctx context.Context, graph string) error
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Options of New. Entity ids are those of every name and alias that an entry had or has whose names a change moved, sorted.
type Options struct {
	Now func() time.Time
	// Queue returns rows that are written together with a change; nil: none.
	Queue func(graph string, entityIDs []string) []store.Op
	// OnChange is called after a change was written; nil: nobody is told.
	OnChange func(graph string, entityIDs []string)
}

// Registry answers registry.*. Safe for concurrent use.
type Registry struct {
	st     *store.Store
	graphs Graphs
	ops    *operations.Operations
	now    func() time.Time
	opt    Options

	mu sync.Mutex // one change at a time
}

// New makes the registry over st.
func New(st *store.Store, g Graphs, ops *operations.Operations, o Options) *Registry {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Registry{st: st, graphs: g, ops: ops, now: o.Now, opt: o}
}

// Revision of a graph's registry and the fingerprint of what it says; 0 when nothing was ever put.
func Revision(st *store.Store, graph string) (uint64, string, error) {
	h, err := readHead(st, graph)
	return h.Revision, h.Fingerprint, err
}

func readHead(st *store.Store, graph string) (h head, err error) {
	b, err := st.Get(graph, space, []byte{rowHead})
	if err != nil || b == nil {
		return h, err
	}
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("registry of %s: %w", graph, err)
	}
	return h, nil
}

// joined is a key: its kind, then parts with a zero after each but the last. No part holds a zero.
func joined(kind byte, parts ...string) []byte {
	return append([]byte{kind}, strings.Join(parts, "\x00")...)
}

func entryKey(label, key string) []byte           { return joined(rowEntry, label, key) }
func externalKey(label, id string) []byte         { return joined(rowExternal, label, id) }
func nameKey(label, name, entryKey string) []byte { return joined(rowName, label, name, entryKey) }

// entry reads the entry of a label and folded name.
func (r *Registry) entry(graph, label, key string) (out row, ok bool, err error) {
	b, err := r.st.Get(graph, space, entryKey(label, key))
	if err != nil || b == nil {
		return out, false, err
	}
	if err := json.Unmarshal(b, &out); err != nil {
		return out, false, fmt.Errorf("registry entry %s %q of %s: %w", label, key, graph, err)
	}
	return out, true, nil
}

// Put answers registry.put: all entries or none.
func (r *Registry) Put(ctx context.Context, graph string, req api.RegistryPut) (reply api.RegistryPutReply, err error) {
	switch n := len(req.Entries); {
	case n == 0:
		return reply, api.Errorf(400, "bad_value", "entries is empty")
	case n > api.MaxRegistryBatch:
		return reply, api.Errorf(413, "too_large", "there are %d entries: at most %d a request", n, api.MaxRegistryBatch)
	}
	if !req.DryRun {
		if err := r.graphs.Ensure(ctx, graph); err != nil {
			return reply, err
		}
	}
	s, err := r.graphs.Schema(graph, 0)
	if err != nil {
		return reply, err
	}
	var bad problems
	entries, warnings := check(s, req.Entries, &bad)
	if err := bad.err(400, "bad_value", "registry.put"); err != nil {
		return reply, err
	}
	var touched []string
	change := func() ([]store.Op, error) {
		reply = api.RegistryPutReply{Warnings: warnings, DryRun: req.DryRun}
		var ops []store.Op
		ops, touched, err = r.change(ctx, graph, entries, &reply)
		return ops, err
	}
	r.mu.Lock()
	if req.DryRun {
		_, err = change()
		touched = nil
	} else {
		err = r.ops.Once(ctx, graph, "registry.put", req.RequestID, req, &reply, change)
	}
	r.mu.Unlock()
	if err == nil {
		r.tell(graph, touched)
	}
	return reply, err
}

func (r *Registry) tell(graph string, touched []string) {
	if r.opt.OnChange != nil && len(touched) > 0 {
		r.opt.OnChange(graph, touched)
	}
}

// batch is a change that is being made.
type batch struct {
	graph   string
	head    head // with the revision of the change
	ops     []store.Op
	changes []string // what the fingerprint is made of
	touched map[string]bool
	left    map[string][]span // by name key, of which something was forgotten
}

// begin starts a change. Callers hold mu.
func (r *Registry) begin(graph string) (*batch, error) {
	h, err := readHead(r.st, graph)
	if err != nil {
		return nil, err
	}
	h.Revision++
	b := &batch{graph: graph, head: h, touched: map[string]bool{}, left: map[string][]span{}}
	return b, r.forget(b)
}

// end adds what goes with every change.
func (r *Registry) end(b *batch) ([]store.Op, []string, error) {
	b.head.Fingerprint = fingerprint.H16Strings(append([]string{b.head.Fingerprint}, b.changes...)...)
	v, err := json.Marshal(b.head)
	if err != nil {
		return nil, nil, fmt.Errorf("registry of %s: %w", b.graph, err)
	}
	touched := slices.Sorted(maps.Keys(b.touched))
	ops := append(b.ops, store.Op{Graph: b.graph, Space: space, Key: []byte{rowHead}, Value: v})
	if r.opt.Queue != nil && len(touched) > 0 {
		ops = append(ops, r.opt.Queue(b.graph, touched)...)
	}
	return ops, touched, nil
}

// change plans a put. Callers hold mu.
func (r *Registry) change(ctx context.Context, graph string, entries []checked, reply *api.RegistryPutReply) ([]store.Op, []string, error) {
	b, err := r.begin(graph)
	if err != nil {
		return nil, nil, err
	}
	olds := make([]*row, len(entries))
	for i := range entries {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		old, ok, err := r.entry(graph, entries[i].entry.Type, entries[i].key)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			olds[i] = &old
		}
	}
	if err := r.externals(b, entries, olds); err != nil {
		return nil, nil, err
	}
	for i, e := range entries {
		switch old := olds[i]; {
		case old == nil:
			reply.Added++
			b.head.Entries++
		case same(old.Entry, e.entry):
			reply.Unchanged++
			continue
		default:
			reply.Updated++
		}
		if err := r.replace(b, e, olds[i]); err != nil {
			return nil, nil, err
		}
	}
	if reply.Added+reply.Updated == 0 {
		reply.Revision = b.head.Revision - 1
		return nil, nil, nil
	}
	reply.Revision = b.head.Revision
	if reply.DryRun {
		reply.Revision--
	}
	reply.Touched = len(b.touched)
	return r.end(b)
}

func same(a, b api.RegistryEntry) bool {
	return a.Name == b.Name && a.ExternalID == b.ExternalID && a.Note == b.Note && slices.Equal(a.Aliases, b.Aliases)
}

// externals gives external ids to entries. Ids that entries of the same request give up are free.
func (r *Registry) externals(b *batch, entries []checked, olds []*row) error {
	holder := map[string]string{} // row key → folded name, as the request leaves it; empty: free
	var moved []string
	for i, e := range entries {
		if old := olds[i]; old != nil && old.Entry.ExternalID != "" && old.Entry.ExternalID != e.entry.ExternalID {
			k := string(externalKey(e.entry.Type, old.Entry.ExternalID))
			holder[k], moved = "", append(moved, k)
		}
	}
	var bad problems
	for i, e := range entries {
		if e.entry.ExternalID == "" {
			continue
		}
		k := externalKey(e.entry.Type, e.entry.ExternalID)
		owner, planned := holder[string(k)]
		if !planned {
			v, err := r.st.Get(b.graph, space, k)
			if err != nil {
				return err
			}
			owner = string(v)
		}
		switch owner {
		case e.key:
		case "":
			holder[string(k)], moved = e.key, append(moved, string(k))
		default:
			bad.add(i, "external_id", "%s is %s %s already", quote(e.entry.ExternalID), e.entry.Type, quote(r.display(b.graph, e.entry.Type, owner)))
		}
	}
	if err := bad.err(409, "external_id_taken", "registry.put"); err != nil {
		return err
	}
	slices.Sort(moved)
	for _, k := range slices.Compact(moved) {
		v := holder[k]
		b.ops = append(b.ops, store.Op{Graph: b.graph, Space: space, Key: []byte(k), Value: []byte(v), Delete: v == ""})
	}
	return nil
}

// display is an entry's name as it was given, for a message.
func (r *Registry) display(graph, label, key string) string {
	if e, ok, err := r.entry(graph, label, key); err == nil && ok {
		return e.Entry.Name
	}
	return key
}

// replace writes an entry and its names over the old one, which may be nil.
func (r *Registry) replace(b *batch, e checked, old *row) error {
	v, err := json.Marshal(row{Entry: e.entry, Revision: b.head.Revision})
	if err != nil {
		return fmt.Errorf("registry entry %s %q: %w", e.entry.Type, e.entry.Name, err)
	}
	b.ops = append(b.ops, store.Op{Graph: b.graph, Space: space, Key: entryKey(e.entry.Type, e.key), Value: v})
	b.changes = append(b.changes, string(v))
	var had []string
	if old != nil {
		had = named(old.Entry)
	}
	return r.names(b, e.entry.Type, e.key, had, e.names)
}

// names moves the name rows of an entry from one sorted list to another.
func (r *Registry) names(b *batch, label, key string, had, has []string) error {
	if slices.Equal(had, has) {
		return nil
	}
	for _, n := range slices.Concat(had, has) {
		b.touched[fingerprint.EntityID(label, n)] = true
	}
	for _, n := range has {
		if _, kept := slices.BinarySearch(had, n); kept {
			continue
		}
		if err := r.gained(b, label, n, key); err != nil {
			return err
		}
	}
	for _, n := range had {
		if _, kept := slices.BinarySearch(has, n); kept {
			continue
		}
		if err := r.lost(b, label, n, key); err != nil {
			return err
		}
	}
	return nil
}

// Delete answers registry.delete.
func (r *Registry) Delete(ctx context.Context, graph string, req api.RegistryDelete) (reply api.RegistryDeleteReply, err error) {
	if (req.Name == "") == (req.ExternalID == "") {
		return reply, api.Errorf(400, "bad_value", "say which entry: type, and either name or external_id")
	}
	s, err := r.graphs.Schema(graph, 0)
	if err != nil {
		return reply, err
	}
	label, err := typeOf(s, req.Type)
	if err != nil {
		return reply, api.Errorf(400, "bad_value", "type: %v", err)
	}
	var touched []string
	r.mu.Lock()
	err = r.ops.Once(ctx, graph, "registry.delete", req.RequestID, req, &reply, func() ([]store.Op, error) {
		key := fingerprint.Fold(req.Name)
		if req.ExternalID != "" {
			b, err := r.st.Get(graph, space, externalKey(label, strings.TrimSpace(req.ExternalID)))
			if err != nil {
				return nil, err
			}
			key = string(b)
		}
		old, ok, err := r.entry(graph, label, key)
		if err != nil {
			return nil, err
		}
		if !ok {
			return nil, notFound(label, req.Name, req.ExternalID)
		}
		b, err := r.begin(graph)
		if err != nil {
			return nil, err
		}
		b.head.Entries--
		b.ops = append(b.ops, store.Op{Graph: graph, Space: space, Key: entryKey(label, key), Delete: true})
		b.changes = append(b.changes, "delete", label, key)
		if x := old.Entry.ExternalID; x != "" {
			b.ops = append(b.ops, store.Op{Graph: graph, Space: space, Key: externalKey(label, x), Delete: true})
		}
		if err := r.names(b, label, key, named(old.Entry), nil); err != nil {
			return nil, err
		}
		var ops []store.Op
		ops, touched, err = r.end(b)
		reply = api.RegistryDeleteReply{Revision: b.head.Revision, Entry: old.reply(), Touched: len(touched)}
		return ops, err
	})
	r.mu.Unlock()
	if err == nil {
		r.tell(graph, touched)
	}
	return reply, err
}

func notFound(label, name, external string) error {
	what, which := "name or alias", name
	if external != "" {
		what, which = "external id", external
	}
	of := "entry"
	if label != "" {
		of = "entry of type " + label
	}
	return api.Errorf(404, "entry_not_found", "the registry has no %s with the %s %s", of, what, quote(which))
}
