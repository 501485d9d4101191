package candidates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Edit answers candidates.edit: one pending record is changed, its key stays. A refused edit changes nothing.
func (d *Desk) Edit(ctx context.Context, graphName string, req api.ReviewEdit) (reply api.CandidateEdited, err error) {
	if err := checkWho(req.Actor, req.Reason); err != nil {
		return reply, err
	}
	switch {
	case req.ID == "":
		return reply, api.Errorf(400, "bad_value", "id is missing: that of one record, as list and show give it")
	case len(req.Set) == 0:
		return reply, api.Errorf(400, "bad_value", "set is empty: it says what to change, such as {\"label\":\"Spacecraft\"}")
	}
	err = d.deps.Operations.Within(ctx, graphName, "candidates.edit", req.RequestID, req, &reply, func(remember func() ([]store.Op, error)) error {
		err := d.write(ctx, graphName, who{req.Actor, req.Reason, req.RequestID}, func(c *commit) error {
			r, err := c.editable(req)
			if err != nil {
				return err
			}
			reply.ID, reply.Key = r.ID, r.Key
			reply.Planned, err = c.edit(r, req)
			return err
		}, func(seq uint64, records []events.Audit) {
			reply.Seq, reply.Revision = seq, seq
			for _, a := range records {
				reply.Record = a.Record
			}
		}, remember)
		if errors.Is(err, store.ErrNoGraph) {
			return noCandidate(graphName, req.ID)
		}
		return err
	})
	return reply, err
}

func noCandidate(graphName, id string) *api.Error {
	return api.Errorf(404, "candidate_not_found", "graph %s has no candidate %.120s", graphName, id)
}

// editable is the record that a request names, if it can be edited.
func (c *commit) editable(req api.ReviewEdit) (r store.CandidateRecord, err error) {
	doc, key, current, err := c.sn.CandidateByID(strings.ToLower(req.ID))
	if err != nil {
		return r, err
	}
	if !current {
		e := noCandidate(c.graph, req.ID)
		if key != "" {
			e.Message += ": it was read again since; its key is " + key
			e.Details = map[string]any{"key": key}
		}
		return r, e
	}
	r, _, err = c.sn.Candidate(doc, key)
	switch {
	case err != nil:
		return r, err
	case r.State != api.StatePending:
		return r, api.Errorf(412, "not_pending", "candidate %s is %s: only a pending one can be edited", r.ID, r.State)
	case req.Revision == 0 || req.Revision == r.Seq:
		return r, nil
	}
	// What list and show give is the newest of the key's records.
	newest := uint64(0)
	err = c.sn.CandidatesByKey(key, func(x store.CandidateRecord) error {
		if x.State == r.State {
			newest = max(newest, x.Seq)
		}
		return nil
	})
	if err == nil && newest != req.Revision {
		err = api.Errorf(409, "stale_revision", "candidate %s is at revision %d, not %d: it moved meanwhile; look again", r.ID, newest, req.Revision)
	}
	return r, err
}

func (c *commit) edit(r store.CandidateRecord, req api.ReviewEdit) (now api.Planned, err error) {
	v, ok, err := c.sn.Version(r.DocID, r.Version)
	if err != nil {
		return now, err
	}
	if !ok {
		return now, fmt.Errorf("%w: version %d of the document of candidate %s is missing", store.ErrCorrupt, r.Version, r.ID)
	}
	text, _, err := c.sn.Text(r.DocID, r.Version)
	if err != nil {
		return now, err
	}
	s, err := c.desk.deps.Schemas.Schema(c.graph, 0)
	if err != nil {
		return now, err
	}
	e := editor{c: c, now: r.Candidate, chunks: v.Chunks, text: text, schema: s, ends: NewEnds(c.ctx, c.sn, s)}
	if err := e.set(req.Set); err != nil {
		return now, err
	}
	if err := e.check(); err != nil {
		return now, err
	}
	if err := e.fits(r.Candidate); err != nil {
		return now, err
	}
	var was seen
	if err := was.add(c, &r); err != nil {
		return now, err
	}
	before := r.Candidate
	r.Candidate = e.now
	r.Edited = &store.Edited{Actor: strings.TrimSpace(req.Actor), Reason: req.Reason}
	if err := c.txn.EditCandidate(c.ctx, r, text[r.Start:r.End]); err != nil {
		return now, err
	}
	// The plan is made of what the graph was before this commit, with the edited record in its place.
	r.Quote = clipQuote(text[r.Start:r.End])
	maker := c.desk.planner(c.ctx, c.graph, c.sn, e.ends)
	maker.instead = &r
	p, err := maker.plan(r.Key)
	if err != nil {
		return now, err
	}
	a, err := c.record(r.Key, r.ID, events.DecisionEdit, api.StatePending, api.StatePending, was)
	if err != nil {
		return now, err
	}
	now = planned(p)
	a.Plan, a.Diff = now.Fingerprint, diff(before, r.Candidate)
	a.Saw(was.evidence...)
	if a.Original, err = json.Marshal(form(before)); err != nil {
		return now, err
	}
	if a.Edited, err = json.Marshal(form(r.Candidate)); err != nil {
		return now, err
	}
	a.Set, err = json.Marshal(req.Set)
	return now, err
}

// clipQuote cuts a quote as the store does.
func clipQuote(s string) string {
	n := min(len(s), events.MaxAuditQuote)
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// edited is the form of a candidate that people can change, in the fields of set.
type edited struct {
	Kind         string `json:"kind"`
	Label        string `json:"label"`
	Text         string `json:"text"`
	SourceText   string `json:"source_text,omitempty"`
	SourceLabel  string `json:"source_label,omitempty"`
	SourceEntity string `json:"source_entity,omitempty"`
	TargetText   string `json:"target_text,omitempty"`
	TargetLabel  string `json:"target_label,omitempty"`
	TargetEntity string `json:"target_entity,omitempty"`
	Start        int    `json:"start"`
	End          int    `json:"end"`
}

func form(c graph.Candidate) edited {
	return edited{c.Kind, c.Label, c.Text, c.SourceText, c.SourceLabel, c.SourceEntity, c.TargetText, c.TargetLabel, c.TargetEntity, c.Start, c.End}
}

// diff are the fields that an edit made other than they were, by name.
func diff(was, now graph.Candidate) (out []events.AuditDiff) {
	for _, f := range []struct {
		name     string
		was, now string
	}{
		{"label", was.Label, now.Label}, {"source_entity", was.SourceEntity, now.SourceEntity}, {"source_label", was.SourceLabel, now.SourceLabel},
		{"source_text", was.SourceText, now.SourceText}, {"target_entity", was.TargetEntity, now.TargetEntity},
		{"target_label", was.TargetLabel, now.TargetLabel}, {"target_text", was.TargetText, now.TargetText}, {"text", was.Text, now.Text},
	} {
		if f.was != f.now {
			out = append(out, events.AuditDiff{Field: f.name, Before: f.was, After: f.now})
		}
	}
	if was.Start != now.Start || was.End != now.End {
		out = append(out, events.AuditDiff{Field: "span", Before: []int{was.Start, was.End}, After: []int{now.Start, now.End}})
	}
	return out
}

// editor applies the fields of an edit.
type editor struct {
	c      *commit
	now    graph.Candidate
	chunks []graph.Chunk
	text   string
	schema *schema.Schema
	ends   *Ends
	shown  [2]bool // ends that are shown by the name of the entity that they were set to
}

// maxField is the most bytes of a text that a person sets.
const maxField = 2000

func (e *editor) set(fields map[string]any) error {
	fields, err := flat(e.now.Kind, fields)
	if err != nil {
		return err
	}
	texts := map[string]*string{"label": &e.now.Label, "text": &e.now.Text}
	if e.now.Kind != graph.KindEntity {
		texts["source_text"], texts["source_label"], texts["source_entity"] = &e.now.SourceText, &e.now.SourceLabel, &e.now.SourceEntity
	}
	if e.now.Kind == graph.KindRelation {
		texts["target_text"], texts["target_label"], texts["target_entity"] = &e.now.TargetText, &e.now.TargetLabel, &e.now.TargetEntity
	}
	spans := map[string]*int{"start": &e.now.Start, "end": &e.now.End}
	was := e.now
	for _, name := range sortedKeys(fields) {
		switch {
		case texts[name] != nil:
			s, ok := fields[name].(string)
			if !ok {
				return api.Errorf(400, "bad_value", "set: %s must be a text", name)
			}
			if len(s) > maxField || !utf8.ValidString(s) || strings.ContainsFunc(s, unicode.IsControl) {
				return api.Errorf(400, "bad_value", "set: %s must be a text of at most %d bytes, without control characters", name, maxField)
			}
			*texts[name] = s
		case spans[name] != nil:
			n, ok := fields[name].(float64)
			if !ok || n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
				return api.Errorf(400, "bad_value", "set: %s must be an offset, in bytes of the document's text", name)
			}
			*spans[name] = int(n)
		case name == "entity" && e.now.Kind == graph.KindEntity:
			if err := e.is(fields[name]); err != nil {
				return err
			}
		case name == "quote": // when the offsets are set
		default:
			return api.Errorf(400, "bad_value", "set: %.40q cannot be set; of %s candidates: %s", name, e.now.Kind, strings.Join(settable(e.now.Kind), ", "))
		}
	}
	if quote, ok := fields["quote"]; ok {
		_, start := fields["start"]
		_, end := fields["end"]
		if err := e.quoted(quote, start || end); err != nil {
			return err
		}
	}
	e.moved(was)
	return nil
}

// settable are the fields that an edit of a kind may have, sorted.
func settable(kind string) []string {
	out := []string{"type", "label", "text", "start", "end", "span", "quote"}
	switch kind {
	case graph.KindEntity:
		out = append(out, "name", "entity", "matched_entity")
	case graph.KindProperty:
		out = append(out, "value", "properties")
	default:
		out = append(out, "target", "target_text", "target_label", "target_entity")
	}
	if kind != graph.KindEntity {
		out = append(out, "endpoints", "source", "source_text", "source_label", "source_entity")
	}
	slices.Sort(out)
	return out
}

// is makes an entity candidate the mention of a stored entity.
func (e *editor) is(v any) error {
	id, _ := v.(string)
	f, ok, err := e.c.sn.Entity(strings.ToLower(id))
	if err != nil {
		return err
	}
	if !ok {
		return api.Errorf(404, "entity_not_found", "set: entity: no such entity %.60q", id)
	}
	e.now.Label, e.now.Text = f.Label, f.Display()
	return nil
}

// moved forgets the entity of an end whose text or label is another one now.
func (e *editor) moved(was graph.Candidate) {
	e.shown = [2]bool{e.now.SourceEntity != was.SourceEntity && e.now.SourceText == was.SourceText, e.now.TargetEntity != was.TargetEntity && e.now.TargetText == was.TargetText}
	if (e.now.SourceText != was.SourceText || e.now.SourceLabel != was.SourceLabel) && e.now.SourceEntity == was.SourceEntity {
		e.now.SourceEntity = ""
	}
	if (e.now.TargetText != was.TargetText || e.now.TargetLabel != was.TargetLabel) && e.now.TargetEntity == was.TargetEntity {
		e.now.TargetEntity = ""
	}
	if e.now.Start != was.Start || e.now.End != was.End {
		e.now.More = nil
	}
}

// check validates the edited form: labels that can be declared, names that are some, ends that are there, evidence that slices.
func (e *editor) check() error {
	n, s := &e.now, e.schema
	if why := e.ends.label(&store.CandidateRecord{Candidate: *n}); why != "" {
		return api.Errorf(400, "bad_value", "set: label: %s", strings.TrimPrefix(why, api.LabelRefused+": "))
	}
	for name, label := range map[string]string{"source_label": n.SourceLabel, "target_label": n.TargetLabel} {
		if label == "" {
			continue
		}
		if _, ok := s.Canon(schema.KindEntity, label); ok {
			continue
		}
		if err := schema.CheckLabel(schema.KindEntity, label); err != nil {
			return api.Errorf(400, "bad_value", "set: %s: %v", name, err)
		}
	}
	if n.Kind != graph.KindRelation && fingerprint.Fold(n.Text) == "" {
		return api.Errorf(400, "bad_value", "set: text is empty")
	}
	for i, x := range []struct {
		name                string
		entity, text, label *string
	}{{"source_entity", &n.SourceEntity, &n.SourceText, &n.SourceLabel}, {"target_entity", &n.TargetEntity, &n.TargetText, &n.TargetLabel}} {
		if *x.entity == "" {
			continue
		}
		*x.entity = strings.ToLower(*x.entity)
		f, ok, err := e.c.sn.Entity(*x.entity)
		if err != nil {
			return err
		}
		if !ok {
			return api.Errorf(404, "entity_not_found", "set: %s: no such entity %.60q", x.name, *x.entity)
		}
		if e.shown[i] {
			*x.text, *x.label = f.Display(), f.Label
		}
	}
	return e.span()
}

// span checks that the evidence is a piece of one chunk.
func (e *editor) span() error {
	n := &e.now
	if n.Start >= n.End || n.End > len(e.text) || !utf8.RuneStart(e.text[n.Start]) || n.End < len(e.text) && !utf8.RuneStart(e.text[n.End]) ||
		strings.TrimSpace(e.text[n.Start:n.End]) == "" {
		return api.Errorf(400, "bad_value", "set: start and end are %d and %d: they must enclose a piece of the document's %d bytes, whole characters", n.Start, n.End, len(e.text))
	}
	for i, c := range e.chunks {
		if c.Start <= n.Start && n.End <= c.End {
			if !(e.chunks[n.Chunk].Start <= n.Start && n.End <= e.chunks[n.Chunk].End) {
				n.Chunk = i
			}
			return nil
		}
	}
	return api.Errorf(400, "bad_value", "set: start and end are %d and %d: no chunk holds all of it", n.Start, n.End)
}
