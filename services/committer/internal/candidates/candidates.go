// Package candidates carries out what people decide about candidates: approvals, rejections, edits, what is forgotten and what is taken
// back. A decision, its audit record, its events and the memory of the request are one commit; many keys are several.
package candidates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/operations"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// Schemas gives a graph's schema of one revision; 0 is the active one.
type Schemas interface {
	Schema(graph string, revision uint64) (*schema.Schema, error)
}

// Deps of New; Store, Operations and Schemas are required.
type Deps struct {
	Store      *store.Store
	Operations *operations.Operations
	Schemas    Schemas
	// Identify returns the folded name of the known entity that a folded name means; "" where the registry knows none, or several.
	Identify func(graph, label, key string) (string, error)
	// Behind waits for what follows a commit, for a while, and returns what hinders it; nil: nothing is waited for.
	Behind func(ctx context.Context, graph string, seq uint64) error
	// Published is the last audit record that was; nil: nobody knows.
	Published audit.Published
	// Committed is told that a graph has another sequence.
	Committed func(graph string)
	Now       func() time.Time
}

// Desk answers the verbs. Safe for concurrent use.
type Desk struct {
	deps Deps
	// keys and records bound one commit: it ends behind the key that reaches one of them.
	keys, records int

	patches sync.Mutex // held while a patch is remembered
}

// Bounds of one commit.
const (
	commitKeys    = 1000
	commitRecords = 5000
)

// New makes a desk.
func New(d Deps) *Desk {
	if d.Committed == nil {
		d.Committed = func(string) {}
	}
	if d.Now == nil {
		d.Now = time.Now
	}
	return &Desk{deps: d, keys: commitKeys, records: commitRecords}
}

func (d *Desk) trail(graph string) audit.Trail {
	return audit.Trail{Store: d.deps.Store, Graph: graph}
}

// with calls fn on a snapshot of the graph's current sequence; nil where the graph does not exist.
func (d *Desk) with(graph string, fn func(sn *store.Snapshot) error) error {
	sn, err := d.deps.Store.Snapshot(graph, 0)
	if errors.Is(err, store.ErrNoGraph) {
		return fn(nil)
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(sn), sn.Close())
}

// checkWho refuses what no decision can come with.
func checkWho(actor, reason string) error {
	switch {
	case strings.TrimSpace(actor) == "":
		return api.Errorf(400, "bad_value", "actor is missing: say who decides")
	case len(actor) > api.MaxActor || !utf8.ValidString(actor) || strings.ContainsFunc(actor, unicode.IsControl):
		return api.Errorf(400, "bad_value", "actor must be a name of at most %d bytes, without control characters", api.MaxActor)
	case strings.EqualFold(strings.TrimSpace(actor), api.ActorPolicy):
		return api.Errorf(400, "bad_value", "actor is %q: so are the decisions of the policy signed; say who you are", actor)
	case len(reason) > api.MaxReason || !utf8.ValidString(reason):
		return api.Errorf(400, "bad_value", "reason must be a text of at most %d bytes", api.MaxReason)
	}
	return nil
}

// isKind says whether a kind of items is one of candidates.
func isKind(kind string) bool { return kind == "entity" || kind == "relation" || kind == "property" }

// kindOf is the kind that a key begins with; "" for a key of anything else.
func kindOf(key string) string {
	if kind, _, ok := strings.Cut(key, "|"); ok && isKind(kind) {
		return kind
	}
	return ""
}

// commit is one commit under way: nobody else changes the graph meanwhile. sn reads what was before.
type commit struct {
	desk  *Desk
	graph string
	who   who
	ctx   context.Context
	sn    *store.Snapshot
	txn   *store.Txn

	records []events.Audit
}

// who decides.
type who struct{ actor, reason, request string }

// write runs fn in a commit of its own. What fn recorded is appended to the trail and told to fill; remember gives the rows of the
// request's memory. Where fn recorded nothing, nothing is committed, and only those rows are written.
func (d *Desk) write(ctx context.Context, graph string, w who, fn func(c *commit) error, fill func(seq uint64, records []events.Audit), remember func() ([]store.Op, error)) error {
	txn, err := d.deps.Store.Begin(ctx, graph)
	if err != nil {
		return err
	}
	c := &commit{desk: d, graph: graph, who: w, ctx: ctx, txn: txn}
	if err := c.run(fn, fill, remember); err != nil {
		return errors.Join(err, txn.Abort())
	}
	return nil
}

func (c *commit) run(fn func(c *commit) error, fill func(seq uint64, records []events.Audit), remember func() ([]store.Op, error)) error {
	seq := uint64(0)
	err := c.desk.with(c.graph, func(sn *store.Snapshot) error {
		c.sn, seq = sn, sn.Seq()
		return fn(c)
	})
	if err != nil {
		return err
	}
	if len(c.records) == 0 {
		fill(seq, nil)
	}
	committed, err := c.desk.trail(c.graph).Commit(c.ctx, c.txn, c.records, func() { fill(c.txn.Seq(), c.records) }, remember)
	if committed {
		c.desk.deps.Committed(c.graph)
	}
	return err
}

// record notes a change of a key.
func (c *commit) record(key, itemID, decision, before, after string, item any) (*events.Audit, error) {
	r := events.Audit{
		Graph: c.graph, At: c.desk.deps.Now().UTC().Format(time.RFC3339Nano), Operation: c.who.request, RequestID: c.who.request,
		Kind: kindOf(key), Key: key, ItemID: itemID, Decision: decision, Actor: strings.TrimSpace(c.who.actor), Reason: c.who.reason,
		Before: before, After: after, Seq: c.txn.Seq(),
	}
	if r.Operation == "" {
		r.Operation = fmt.Sprintf("c%d", r.Seq)
	}
	var err error
	if item != nil {
		if r.Item, err = json.Marshal(item); err != nil {
			return nil, fmt.Errorf("candidate %.200q: %w", key, err)
		}
	}
	c.records = append(c.records, r)
	return &c.records[len(c.records)-1], nil
}

// seen is a group of candidates as it was decided about.
type seen struct {
	Label       string   `json:"label"`
	Text        string   `json:"text"`
	SourceText  string   `json:"source_text,omitempty"`
	TargetText  string   `json:"target_text,omitempty"`
	Reasons     []string `json:"reasons,omitempty"`
	Count       int      `json:"count"`
	Confidence  float64  `json:"confidence"`
	Records     int      `json:"records"` // that the decision moved
	IDs         []string `json:"ids"`     // of the first of them
	Document    string   `json:"document,omitempty"`
	Quote       string   `json:"quote,omitempty"`
	firstRecord *store.CandidateRecord
	evidence    []events.AuditEvidence
}

const (
	maxSeenIDs  = 20
	maxSeenText = 500
)

// add takes a record that the decision moves; of the first one the texts are shown.
func (s *seen) add(c *commit, r *store.CandidateRecord) error {
	s.Count += r.Count
	s.Confidence = max(s.Confidence, r.Confidence)
	s.Records++
	if len(s.IDs) < maxSeenIDs {
		s.IDs = append(s.IDs, r.ID)
	}
	if len(s.evidence) == events.MaxAuditEvidence {
		return nil
	}
	d, _, err := c.sn.Doc(r.DocID)
	if err != nil {
		return err
	}
	s.evidence = append(s.evidence, events.AuditEvidence{Document: d.Meta.Key, Version: r.Version, Start: r.Start, End: r.End, Quote: r.Quote})
	if s.firstRecord != nil {
		return nil
	}
	s.firstRecord = r
	s.Label, s.Text, s.SourceText, s.TargetText = clip(r.Label), clip(r.Text), clip(r.SourceText), clip(r.TargetText)
	s.Reasons, s.Document, s.Quote = r.Reasons, d.Meta.Key, r.Quote
	return nil
}

func (s *seen) id() string {
	if len(s.IDs) == 0 {
		return ""
	}
	return s.IDs[0]
}

// clip cuts a text to what a record shows.
func clip(s string) string {
	if len(s) <= maxSeenText {
		return s
	}
	n := maxSeenText
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// Kinds answers candidates.kinds.
func (d *Desk) Kinds(ctx context.Context, graph string, req api.CandidatesKinds) (api.CandidatesKindsReply, error) {
	reply := api.CandidatesKindsReply{Kinds: map[string]string{}}
	if len(req.IDs) > api.MaxCandidates {
		return reply, tooMany(len(req.IDs))
	}
	was, _, err := d.deps.Operations.Decision(graph, req.RequestID)
	if err != nil {
		return reply, err
	}
	reply.Decided = was.Verb
	err = d.with(graph, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		for _, id := range req.IDs {
			if err := ctx.Err(); err != nil {
				return err
			}
			_, key, _, err := sn.CandidateByID(strings.ToLower(id))
			if err != nil {
				return err
			}
			if kind := kindOf(key); kind != "" {
				reply.Kinds[id] = kind
				continue
			}
			_, ok, err := sn.MatchByID(strings.ToLower(id))
			if err != nil {
				return err
			}
			if ok {
				reply.Kinds[id] = api.KindMatch
				continue
			}
			if _, ok, err = sn.StaleByID(strings.ToLower(id)); err != nil {
				return err
			}
			if !ok {
				_, ok, err = sn.StaleDecided(strings.ToLower(id))
			}
			if err != nil {
				return err
			}
			if ok {
				reply.Kinds[id] = api.KindStale
			}
		}
		return nil
	})
	return reply, err
}

func tooMany(n int) error {
	return api.Errorf(413, "too_large", "there are %d candidates: at most %d by id or key; a query chooses more", n, api.MaxCandidates)
}
