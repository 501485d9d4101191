package dead

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const (
	defaultLimit = 50
	maxLimit     = 500
	// listReason is how much of a reason stands in a list, listBytes how much of everything in one reply.
	listReason = 300
	listBytes  = 600 << 10
)

var token = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// check refuses what a query may not say; stage and job become tokens of a subject.
func check(q api.DeadQuery) error {
	switch q.Kind {
	case "", api.DeadKind, api.QuarantineKind:
	default:
		return api.Errorf(400, "bad_value", "kind is %q: it must be dead or quarantine", clip(q.Kind, 80))
	}
	for name, v := range map[string]string{"stage": q.Stage, "job": q.Job} {
		if v != "" && !token.MatchString(v) {
			return api.Errorf(400, "bad_name", "%s is %q: it must match [A-Za-z0-9_-]{1,128}", name, clip(v, 80))
		}
	}
	return nil
}

// place is where a page ended: what comes next of each kind.
type place struct {
	Below uint64 `json:"b,omitempty"` // dead letters below this sequence; 0: from the newest
	After string `json:"a,omitempty"` // records after this id; empty: from the newest
}

func (p place) String() string {
	b, err := json.Marshal(p)
	if err != nil { // two plain fields
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parsePlace(s string) (p place, err error) {
	if s == "" {
		return p, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil || p.After != "" && !quarantine.IsID(p.After) {
		return p, api.Errorf(400, "bad_value", "the cursor is not one of ours")
	}
	return p, nil
}

// page is what a query chooses, newest first; next is nil at the end.
func (d *Desk) page(ctx context.Context, graph string, q api.DeadQuery, limit int, cursor string) (out []*entry, next *place, err error) {
	if err := check(q); err != nil {
		return nil, nil, err
	}
	at, err := parsePlace(cursor)
	if err != nil {
		return nil, nil, err
	}
	var letters, records []*entry
	if q.Kind != api.QuarantineKind {
		if letters, err = d.letters(ctx, graph, q, at.Below, limit+1); err != nil {
			return nil, nil, err
		}
	}
	if q.Kind != api.DeadKind {
		if records, err = d.records(ctx, graph, q, at.After, limit+1); err != nil {
			return nil, nil, err
		}
	}
	for len(letters)+len(records) > 0 {
		if len(out) == limit {
			return out, &at, nil
		}
		if len(records) == 0 || len(letters) > 0 && !letters[0].at.Before(records[0].at) {
			out, at.Below, letters = append(out, letters[0]), letters[0].seq, letters[1:]
		} else {
			out, at.After, records = append(out, records[0]), records[0].rec.ID, records[1:]
		}
	}
	return out, nil, nil
}

// letters reads up to n dead letters.
func (d *Desk) letters(ctx context.Context, graph string, q api.DeadQuery, below uint64, n int) (out []*entry, err error) {
	err = d.newest(ctx, subjects(graph, q.Stage, q.Job), below, func(e *entry) error {
		if q.Code != "" && e.dead.Code != q.Code {
			return nil
		}
		gone, err := d.settle(ctx, e)
		if err != nil || gone {
			return err
		}
		if out = append(out, e); len(out) == n {
			return errEnough
		}
		return nil
	})
	return out, err
}

// records reads up to n quarantine records.
func (d *Desk) records(ctx context.Context, graph string, q api.DeadQuery, after string, n int) (out []*entry, err error) {
	err = quarantine.Scan(d.st, graph, after, func(r quarantine.Record) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if q.Stage != "" && r.Stage != q.Stage || q.Job != "" && r.Job != q.Job || q.Code != "" && r.Code != q.Code {
			return nil
		}
		e := &entry{graph: graph, rec: &r, at: r.At}
		gone, err := d.settle(ctx, e)
		if err != nil || gone {
			return err
		}
		if out = append(out, e); len(out) == n {
			return store.ErrStop
		}
		return nil
	})
	return out, err
}

// List answers dead-letters.list: newest first, cut by bytes.
func (d *Desk) List(ctx context.Context, graph string, req api.DeadList) (api.DeadListReply, error) {
	reply := api.DeadListReply{Letters: []api.DeadLetter{}}
	limit, err := limitOf(req.Limit, defaultLimit)
	if err != nil {
		return reply, err
	}
	found, next, err := d.page(ctx, graph, req.DeadQuery, limit, req.Cursor)
	if err != nil {
		return reply, err
	}
	var at place
	if at, err = parsePlace(req.Cursor); err != nil {
		return reply, err
	}
	size := 0
	for _, e := range found {
		l, err := d.describe(ctx, e)
		if err != nil {
			return reply, err
		}
		l.Reason = clip(l.Reason, listReason)
		b, err := json.Marshal(l)
		if err != nil {
			return reply, fmt.Errorf("dead letter %s: %w", l.ID, err)
		}
		if size += len(b); size > listBytes && len(reply.Letters) > 0 {
			next = &at
			break
		}
		reply.Letters = append(reply.Letters, l)
		if e.rec != nil {
			at.After = e.rec.ID
		} else {
			at.Below = e.seq
		}
	}
	if next != nil {
		reply.Next = next.String()
	}
	return reply, nil
}

func limitOf(n, otherwise int) (int, error) {
	if n < 0 || n > maxLimit {
		return 0, api.Errorf(400, "bad_value", "limit is %d: it must be between 0 and %d", n, maxLimit)
	}
	if n == 0 {
		return otherwise, nil
	}
	return n, nil
}

// describe says what people need to know of an entry.
func (d *Desk) describe(ctx context.Context, e *entry) (api.DeadLetter, error) {
	b, err := d.jobs.Brief(e.graph, e.job())
	if err != nil {
		return api.DeadLetter{}, err
	}
	l := api.DeadLetter{ID: e.id(), Job: e.job(), JobState: b.State, Event: e.kind(), Body: e.ref(), At: e.at.UTC().Format(time.RFC3339Nano)}
	if r := e.rec; r != nil {
		l.Kind, l.Stage, l.Key, l.Code, l.Reason, l.TraceID, l.Items = api.QuarantineKind, r.Stage, r.Key, r.Code, r.Reason, r.TraceID, r.Items
	} else {
		x := e.dead
		l.Kind, l.Stage, l.Key, l.Code, l.Reason, l.TraceID = api.DeadKind, x.Stage, x.Item, x.Code, x.Error, x.TraceID
		l.Subject, l.Stream, l.Seq, l.Attempts, l.Size = x.Subject, x.Stream, x.Seq, x.Attempts, e.size
	}
	l.Replay, err = d.replayOf(ctx, e)
	return l, err
}

const (
	// showBody is the largest message that show decodes, showMessage the most that it shows of it.
	showBody    = 16 << 20
	showMessage = 256 << 10
	showText    = 4 << 10
	// showContent is the largest inline message whose bytes are sent.
	showContent = 400 << 10
)

// Show answers dead-letters.show: everything that is known, with the message itself.
func (d *Desk) Show(ctx context.Context, graph string, req api.DeadShow) (api.DeadShowReply, error) {
	var reply api.DeadShowReply
	e, err := d.find(ctx, graph, req.ID)
	if err != nil {
		return reply, err
	}
	if gone, err := d.settle(ctx, e); err != nil || gone {
		return reply, errors.Join(err, ifGone(gone, graph, req.ID))
	}
	if reply.Letter, err = d.describe(ctx, e); err != nil {
		return reply, err
	}
	if e.dead != nil {
		reply.Headers = e.dead.Headers
	}
	return reply, d.message(ctx, e, req.Content, &reply)
}

func ifGone(gone bool, graph, id string) error {
	if gone {
		return notFound(graph, id)
	}
	return nil
}

// message fills in what the letter's message says.
func (d *Desk) message(ctx context.Context, e *entry, content bool, reply *api.DeadShowReply) error {
	if e.size > showBody {
		reply.NoMessage = fmt.Sprintf("the message has %d bytes, more than are shown", e.size)
		return nil
	}
	body, err := d.body(ctx, e, showBody)
	if tooLarge(err) {
		reply.NoMessage = fmt.Sprintf("the message has more than %d bytes, more than are shown", showBody)
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case body == nil && e.ref() != "":
		reply.NoMessage = "its bytes are no longer kept"
		return nil
	case body == nil:
		reply.NoMessage = "no bytes were kept"
		return nil
	}
	if content && e.ref() == "" && len(body) <= showContent {
		reply.Content = body
	}
	if e.kind() != events.KindIngest {
		if _, err := e.event(body); err != nil {
			reply.NoMessage, reply.Text = "it cannot be read: "+clip(err.Error(), 500), text(body)
			return nil
		}
	}
	short, cut, err := shorten(body)
	if err != nil { // a document event may be plain text
		reply.Text = text(body)
		return nil
	}
	if len(short) > showMessage {
		reply.NoMessage, reply.Text = "the message is too large to be shown even shortened", text(body)
		return nil
	}
	reply.Message, reply.Cut = short, cut
	return nil
}

func text(body []byte) string { return clip(string(body), showText) }

const (
	// shortText and shortList are how much of a text and of a list in a message is shown.
	shortText = 1000
	shortList = 30
)

// shorten cuts long texts and lists of a JSON value.
func shorten(body []byte) (out json.RawMessage, cut bool, err error) {
	var v any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber() // times in nanoseconds are no floats
	if err := dec.Decode(&v); err != nil {
		return nil, false, err
	}
	var walk func(any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case string:
			if len(v) > shortText {
				cut = true
				return clip(v, shortText) + " (" + strconv.Itoa(len(v)) + " bytes)"
			}
		case []any:
			if len(v) > shortList {
				cut = true
				v = append(v[:shortList:shortList], "… "+strconv.Itoa(len(v)-shortList)+" more")
			}
			for i := range v {
				v[i] = walk(v[i])
			}
			return v
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	if out, err = json.Marshal(walk(v)); err != nil {
		return nil, false, err
	}
	return out, cut, nil
}
