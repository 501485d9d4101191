package candidates

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/audit"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultRecords = 100
	maxRecords     = 1000
)

// Audit answers decisions.list: what was decided about anything, the latest first.
func (d *Desk) Audit(ctx context.Context, graph string, req api.ReviewAudit) (reply api.ReviewAuditReply, err error) {
	reply.Records = []events.Audit{}
	limit := defaultRecords
	if req.Limit != nil {
		limit = *req.Limit
	}
	if limit < 0 || limit > maxRecords {
		return reply, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", limit, maxRecords)
	}
	f := audit.Filter{Operation: req.Operation, Actor: req.Actor}
	if f.From, err = when("from", req.From); err != nil {
		return reply, err
	}
	if f.To, err = when("to", req.To); err != nil {
		return reply, err
	}
	before := uint64(0)
	if req.Cursor != "" {
		if before, err = strconv.ParseUint(req.Cursor, 10, 64); err != nil || before == 0 {
			return reply, api.Errorf(400, "bad_value", "the cursor is not one of ours")
		}
	}
	if req.OldestFirst && (f != audit.Filter{} || req.Item != "" || req.Record != "") {
		return reply, api.Errorf(400, "bad_value", "oldest_first lists all records: leave operation, item, actor, from, to and record out")
	}
	if f.Key, f.ItemID, err = d.item(graph, req.Item); err != nil {
		return reply, err
	}
	if reply.Operation, err = d.operation(graph, req.Operation); err != nil {
		return reply, err
	}
	t := d.trail(graph)
	if reply.Total, reply.Head, err = t.Head(); err != nil {
		return reply, err
	}
	switch {
	case req.Record != "":
		r, ok, err := t.Record(strings.ToLower(req.Record))
		if err != nil {
			return reply, err
		}
		if !ok {
			return reply, noDecision(graph, req.Record)
		}
		reply.Records = append(reply.Records, r)
	case limit > 0 && req.OldestFirst:
		next := uint64(0)
		if reply.Records, next, err = t.After(ctx, before, limit); err != nil {
			return reply, err
		}
		if next > 0 {
			reply.Next = strconv.FormatUint(next, 10)
		}
	case limit > 0:
		next := uint64(0)
		if reply.Records, next, err = t.List(ctx, f, before, limit); err != nil {
			return reply, err
		}
		if next > 0 {
			reply.Next = strconv.FormatUint(next, 10)
		}
	}
	if req.Verify {
		err = d.verify(ctx, t, &reply)
	}
	return reply, err
}

func (d *Desk) verify(ctx context.Context, t audit.Trail, reply *api.ReviewAuditReply) error {
	reply.Problems = []api.Problem{}
	tell := func(p api.Problem) {
		if len(reply.Problems) < store.MaxProblems {
			reply.Problems = append(reply.Problems, p)
		}
	}
	check := t.Verify
	if last := d.deps.Published; last != nil {
		check = func(ctx context.Context, tell func(api.Problem)) (int, error) {
			return t.VerifyPublished(ctx, last, tell)
		}
	}
	n, err := check(ctx, tell)
	reply.Verified = &n
	return err
}

func when(name, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		if t, err = time.Parse(time.DateOnly, text); err != nil {
			return t, api.Errorf(400, "bad_value", "%s is %.40q: it must be a time such as 2026-01-31T12:00:00Z, or a day", name, text)
		}
	}
	return t, nil
}

// item reads how a request names an item: by its key, or an id that leads to one; any other id is looked for as it is.
func (d *Desk) item(graph, item string) (key, id string, err error) {
	if item == "" || strings.Contains(item, "|") {
		return item, "", nil
	}
	id = strings.ToLower(item)
	err = d.with(graph, func(sn *store.Snapshot) error {
		if sn == nil {
			return nil
		}
		var err error
		if _, key, _, err = sn.CandidateByID(id); err != nil || key != "" {
			return err
		}
		m, ok, err := sn.MatchByID(id)
		if err == nil && ok {
			key = fingerprint.MatchKey(m.A, m.B)
		}
		return err
	})
	if key != "" {
		id = ""
	}
	return key, id, err
}

// operation says how far a decision got that named its intent; nil where none of the id is remembered.
func (d *Desk) operation(graph, id string) (*api.OperationStatus, error) {
	was, ok, err := d.deps.Operations.Decision(graph, id)
	if err != nil || !ok {
		return nil, err
	}
	type said struct {
		Seq     uint64      `json:"seq"`
		Outcome api.Outcome `json:"outcome"`
		Record  string      `json:"record"`        // of an edit
		Matched int         `json:"matched_total"` // of a prune
		Records int         `json:"records"`       // of a conversion
		Skipped int         `json:"skipped_total"`
	}
	var r struct {
		said
		// Of a request of several commits, until the last: what it would answer so far.
		Reply said `json:"reply"`
	}
	// The replies of different verbs have fields of one name and different types: of those nothing is read.
	if err := json.Unmarshal(was.Reply, &r); err != nil && !errors.As(err, new(*json.UnmarshalTypeError)) {
		return nil, fmt.Errorf("%w: operation %s: %w", store.ErrCorrupt, id, err)
	}
	x := r.said
	if !was.Done {
		x = r.Reply
	}
	out := &api.OperationStatus{RequestID: id, Verb: was.Verb, Done: was.Done, Seq: x.Seq, Skipped: x.Skipped + max(x.Outcome.SkippedTotal, len(x.Outcome.Skipped)),
		Changed: x.Matched + x.Records + max(x.Outcome.ChangedTotal, len(x.Outcome.Changed))}
	if x.Record != "" {
		out.Changed++
	}
	return out, nil
}
