package registry

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultPage = 50
	maxPage     = 1000
	// maxReply is about how many bytes of rows a reply has.
	maxReply = 768 << 10
	// maxLooked rows are looked at for one page.
	maxLooked = 100_000
	// maxNamed entries of one name are listed.
	maxNamed = 100
)

// Named returns the entries of a label that have a folded name as name or alias, by their folded names; at most 100.
func (r *Registry) Named(graph, label, key string) ([]api.RegistryEntry, error) {
	rows, err := r.named(graph, label, key)
	out := make([]api.RegistryEntry, 0, len(rows))
	for _, x := range rows {
		out = append(out, x.Entry)
	}
	return out, err
}

// Labels returns those that have entries, in order.
func (r *Registry) Labels(graph string) ([]string, error) { return r.labels(graph, "") }

// Identify returns the folded name of the entry that a folded name means; "" when it is nobody's, or several ones'.
func (r *Registry) Identify(graph, label, key string) (string, error) {
	rows, err := r.named(graph, label, key)
	if err != nil || len(rows) != 1 {
		return "", err
	}
	return fingerprint.Fold(rows[0].Entry.Name), nil
}

// Ambiguous returns the entries of a label that share a folded name as name or alias; none when it is one's own or nobody's.
func (r *Registry) Ambiguous(graph, label, key string) ([]api.RegistryEntry, error) {
	out, err := r.Named(graph, label, key)
	if err != nil || len(out) < 2 {
		return nil, err
	}
	return out, nil
}

// Has says whether there is an entry of that very name.
func (r *Registry) Has(graph, label, key string) (bool, error) {
	_, ok, err := r.entry(graph, label, key)
	return ok, err
}

// Aliases returns the aliases, as they were given, of the entry whose folded name is key.
func (r *Registry) Aliases(graph, label, key string) ([]string, error) {
	e, ok, err := r.entry(graph, label, key)
	if err != nil || !ok {
		return nil, err
	}
	return e.Entry.Aliases, nil
}

func (r *Registry) named(graph, label, name string) ([]row, error) {
	var out []row
	err := r.having(graph, 0, label, name, func(key string) error {
		e, ok, err := r.entry(graph, label, key)
		if err != nil {
			return err
		}
		if ok {
			out = append(out, e)
		}
		if len(out) == maxNamed {
			return store.ErrStop
		}
		return nil
	})
	return out, err
}

// Lookup answers registry.lookup: what names were whose at a revision.
func (r *Registry) Lookup(ctx context.Context, graph string, req api.RegistryLookup) (api.RegistryLookupReply, error) {
	reply := api.RegistryLookupReply{Found: []api.RegistryFound{}}
	if len(req.Names) > api.MaxRegistryBatch {
		return reply, api.Errorf(413, "too_large", "there are %d names: at most %d a request", len(req.Names), api.MaxRegistryBatch)
	}
	if req.Revision == 0 {
		return reply, api.Errorf(400, "bad_value", "revision is missing")
	}
	room := maxReply
	for i, n := range req.Names {
		if err := ctx.Err(); err != nil {
			return reply, err
		}
		if n.Label == "" || n.Key == "" || strings.Contains(n.Label+n.Key, "\x00") {
			return reply, api.Errorf(400, "bad_value", "names[%d] needs a label and a folded name", i)
		}
		f := api.RegistryFound{Index: i}
		err := r.having(graph, req.Revision, n.Label, n.Key, func(key string) error {
			f.Key = key
			if f.Entries++; f.Entries == maxNamed {
				return store.ErrStop
			}
			return nil
		})
		if err != nil {
			return reply, err
		}
		if f.Entries > 1 {
			f.Key = ""
		}
		if room -= 40 + 6*len(f.Key); room < 0 && i > 0 {
			break
		}
		if reply.Answered = i + 1; f.Entries > 0 {
			reply.Found = append(reply.Found, f)
		}
	}
	return reply, nil
}

// Get answers registry.get.
func (r *Registry) Get(_ context.Context, graph string, req api.RegistryGet) (reply api.RegistryGetReply, err error) {
	if (req.Name == "") == (req.ExternalID == "") {
		return reply, api.Errorf(400, "bad_value", "say which entry: its name or its external_id, with or without a type")
	}
	h, err := readHead(r.st, graph)
	if err != nil {
		return reply, err
	}
	reply = api.RegistryGetReply{Revision: h.Revision, Entries: []api.RegistryRow{}}
	labels, err := r.labels(graph, req.Type)
	if err != nil {
		return reply, err
	}
	key := fingerprint.Fold(req.Name)
	var byAlias []api.RegistryRow
	for _, label := range labels {
		if req.ExternalID != "" {
			b, err := r.st.Get(graph, space, externalKey(label, strings.TrimSpace(req.ExternalID)))
			if err != nil {
				return reply, err
			}
			e, ok, err := r.entry(graph, label, string(b))
			if err != nil {
				return reply, err
			}
			if ok {
				reply.Entries = append(reply.Entries, e.reply())
			}
			continue
		}
		rows, err := r.named(graph, label, key)
		if err != nil {
			return reply, err
		}
		for _, e := range rows {
			if fingerprint.Fold(e.Entry.Name) == key {
				reply.Entries = append(reply.Entries, e.reply())
			} else {
				byAlias = append(byAlias, e.reply())
			}
		}
	}
	reply.Entries = append(reply.Entries, byAlias...)
	reply.Entries = within(reply.Entries[:min(len(reply.Entries), maxNamed)])
	if len(reply.Entries) == 0 {
		return reply, notFound(req.Type, req.Name, req.ExternalID)
	}
	return reply, nil
}

// within cuts rows to what one reply may have.
func within(rows []api.RegistryRow) []api.RegistryRow {
	room := maxReply
	for i, x := range rows {
		if room -= sizeOf(x); room < 0 && i > 0 {
			return rows[:i]
		}
	}
	return rows
}

func sizeOf(x api.RegistryRow) int {
	b, err := json.Marshal(x)
	if err != nil {
		return maxReply
	}
	return len(b) + 1
}

// labels of the registry's entries; those that a type stands for when it is given.
func (r *Registry) labels(graph, typ string) ([]string, error) {
	if typ != "" {
		s, err := r.graphs.Schema(graph, 0)
		if err != nil {
			return nil, err
		}
		label, err := typeOf(s, typ)
		if err != nil {
			return nil, api.Errorf(400, "bad_value", "type: %v", err)
		}
		return []string{label}, nil
	}
	var out []string
	var after []byte
	for {
		n := len(out)
		err := r.st.Scan(graph, space, []byte{rowEntry}, after, 1, func(k, _ []byte) error {
			label, _, ok := bytes.Cut(k[1:], []byte{0})
			if !ok {
				return fmt.Errorf("%w: an entry of the registry", store.ErrCorrupt)
			}
			out = append(out, string(label))
			return nil
		})
		if err != nil || len(out) == n || len(out) == maxLabels {
			return out, err
		}
		after = append(joined(rowEntry, out[n]), 1) // behind every entry of the label
	}
}

// maxLabels of one registry that are looked through when no type is given.
const maxLabels = 10_000

// place is where a list goes on: behind this key of a label.
type place struct {
	Label string `json:"l"`
	Key   string `json:"k"`
}

const cursorHead = "registry:"

func (p place) cursor() (string, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return "", fmt.Errorf("cursor: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(append([]byte(cursorHead), b...)), nil
}

func placeOf(cursor string) (p place, err error) {
	bad := api.Errorf(400, "bad_value", "cursor is not one that registry.list gave")
	if len(cursor) > 16<<10 {
		return p, bad
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return p, bad
	}
	rest, ok := bytes.CutPrefix(b, []byte(cursorHead))
	if !ok || json.Unmarshal(rest, &p) != nil {
		return p, bad
	}
	return p, nil
}

var errFull = errors.New("the page is full")

// page is a page of a list under way.
type page struct {
	reply *api.RegistryListReply
	limit int
	room  int
	seen  int
	at    place // behind what was looked at
}

// List answers registry.list. With a prefix it goes through names and aliases, and shows an entry at the first that begins so.
func (r *Registry) List(ctx context.Context, graph string, req api.RegistryList) (api.RegistryListReply, error) {
	reply := api.RegistryListReply{Entries: []api.RegistryRow{}}
	switch {
	case req.Limit < 0 || req.Limit > maxPage:
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 1 and %d", req.Limit, maxPage)
	case req.Limit == 0:
		req.Limit = defaultPage
	}
	p := &page{reply: &reply, limit: req.Limit, room: maxReply}
	var err error
	if req.Cursor != "" {
		if p.at, err = placeOf(req.Cursor); err != nil {
			return reply, err
		}
	}
	h, err := readHead(r.st, graph)
	if err != nil {
		return reply, err
	}
	reply.Revision, reply.Total = h.Revision, h.Entries
	labels, err := r.labels(graph, req.Type)
	if err != nil {
		return reply, err
	}
	q := fingerprint.Fold(req.Q)
	for _, label := range labels {
		if label < p.at.Label {
			continue
		}
		if label != p.at.Label {
			p.at = place{Label: label}
		}
		if q == "" {
			err = r.listEntries(ctx, graph, label, p)
		} else {
			err = r.listNames(ctx, graph, label, q, p)
		}
		if errors.Is(err, errFull) {
			reply.Next, err = p.at.cursor()
			return reply, err
		}
		if err != nil {
			return reply, err
		}
	}
	return reply, nil
}

// behind is the key to go on behind, nil at a label's beginning.
func (p *page) behind(kind byte) []byte {
	if p.at.Key == "" {
		return nil
	}
	return joined(kind, p.at.Label, p.at.Key)
}

// look is asked before a row is looked at.
func (p *page) look(ctx context.Context) error {
	if p.seen++; p.seen > maxLooked || len(p.reply.Entries) >= p.limit {
		return errFull
	}
	return ctx.Err()
}

func (p *page) add(x row) error {
	out := x.reply()
	if p.room -= sizeOf(out); p.room < 0 && len(p.reply.Entries) > 0 {
		return errFull
	}
	p.reply.Entries = append(p.reply.Entries, out)
	return nil
}

func (r *Registry) listEntries(ctx context.Context, graph, label string, p *page) error {
	prefix := entryKey(label, "")
	return r.st.Scan(graph, space, prefix, p.behind(rowEntry), 0, func(k, v []byte) error {
		if err := p.look(ctx); err != nil {
			return err
		}
		var x row
		if err := json.Unmarshal(v, &x); err != nil {
			return fmt.Errorf("registry of %s: %w", graph, err)
		}
		if err := p.add(x); err != nil {
			return err
		}
		p.at.Key = string(k[len(prefix):])
		return nil
	})
}

func (r *Registry) listNames(ctx context.Context, graph, label, q string, p *page) error {
	head := joined(rowName, label, "")
	return r.st.Scan(graph, space, joined(rowName, label, q), p.behind(rowName), 0, func(k, v []byte) error {
		if err := p.look(ctx); err != nil {
			return err
		}
		at := string(k[len(head):])
		name, key, ok := strings.Cut(at, "\x00")
		if !ok {
			return fmt.Errorf("%w: a name of the registry", store.ErrCorrupt)
		}
		s, err := decodeSpans(v)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(s, func(s span) bool { return s.to == 0 }) {
			x, ok, err := r.entry(graph, label, key)
			if err != nil {
				return err
			}
			if ok && first(x.Entry, q) == name {
				if err := p.add(x); err != nil {
					return err
				}
			}
		}
		p.at.Key = at
		return nil
	})
}

// first is an entry's first folded name that begins with q.
func first(e api.RegistryEntry, q string) string {
	for _, n := range named(e) {
		if strings.HasPrefix(n, q) {
			return n
		}
	}
	return ""
}
