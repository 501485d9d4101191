// Package operations makes a request that names its intent (request_id) one that happens once: its reply is stored, and the same
// request is answered with it again.
package operations

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package: verb 0 request id → operation; what people decide is under one verb, Decisions.
const space = byte('I')

// Decisions is the name that all verbs share by which people decide: a request id names one decision, whatever it is about.
const Decisions = "review"

// decides are the ends of those verbs.
var decides = map[string]bool{"decide": true, "edit": true, "prune": true, "undo": true, "convert": true}

// shared is the name under which a verb's requests are remembered.
func shared(verb string) string {
	if noun, last, _ := strings.Cut(verb, "."); noun != "" && decides[last] {
		return Decisions
	}
	return verb
}

// MaxID is the most bytes of a request id.
const MaxID = 128

// operation is the stored reply of a request that named its intent.
type operation struct {
	Body  string          `json:"body"` // SHA-256 of the request, of a decision with its verb
	Verb  string          `json:"verb,omitempty"`
	Reply json.RawMessage `json:"reply,omitempty"`
	// State is how far a request of several commits got; Reply is absent until its end.
	State json.RawMessage `json:"state,omitempty"`
}

// Operations remembers replies in a store. The zero value is not usable.
type Operations struct {
	st *store.Store

	mu      sync.Mutex
	running map[string]*turn // requests of one id wait for each other; guarded by mu
}

type turn struct {
	free    chan struct{} // holds one value while nobody has the turn
	waiting int           // guarded by Operations.mu
}

// maxWait of a request for an earlier one of its id. Who asks again and again while that one is under way holds up nobody else for longer.
const maxWait = 15 * time.Second

// New makes the memory of requests over st.
func New(st *store.Store) *Operations {
	return &Operations{st: st, running: map[string]*turn{}}
}

// Once runs change, and writes its rows and reply in one write. The same id with the same request gets the stored reply; with
// another one it is refused (409 operation_reused). Without an id, or after an error, nothing is remembered. change fills reply
// and may act outside the store too: then it must bear being called again after a crash between the act and the write. The
// graph must exist by the time change returns.
func (o *Operations) Once(ctx context.Context, graph, verb, id string, req, reply any, change func() ([]store.Op, error)) error {
	return o.Within(ctx, graph, verb, id, req, reply, func(remember func() ([]store.Op, error)) error {
		ops, err := change()
		if err != nil {
			return err
		}
		rows, err := remember()
		if err != nil || len(ops)+len(rows) == 0 {
			return err
		}
		return o.st.Write(ctx, append(ops, rows...), true)
	})
}

// Within is Once for a change that writes by itself: it calls remember when reply is filled, and writes the rows that it gives
// together with what it changes.
func (o *Operations) Within(ctx context.Context, graph, verb, id string, req, reply any, change func(remember func() ([]store.Op, error)) error) error {
	return o.Steps(ctx, graph, verb, id, req, reply, nil, func(remember func(bool) ([]store.Op, error)) (bool, error) {
		return true, change(func() ([]store.Op, error) { return remember(true) })
	})
}

// Steps is Within for a change of several commits: step is called until it says done, and writes with each commit the rows that remember
// gives, which hold reply when that commit is the last, else state. A request that was interrupted goes on where its last commit left
// state; one with an id only.
func (o *Operations) Steps(ctx context.Context, graph, verb, id string, req, reply, state any, step func(remember func(done bool) ([]store.Op, error)) (done bool, err error)) error {
	remember := func(bool) ([]store.Op, error) { return nil, nil }
	if id != "" {
		op, key, err := newOperation(verb, id, req)
		if err != nil {
			return err
		}
		done, err := o.alone(ctx, graph+"\x00"+string(key))
		if err != nil {
			return err
		}
		defer done()
		stored, err := o.st.Get(graph, space, key)
		if err != nil {
			return err
		}
		if stored != nil {
			if done, err := op.again(stored, id, reply, state); err != nil || done {
				return err
			}
		}
		remember = func(done bool) ([]store.Op, error) { return op.rows(graph, verb, key, reply, state, done) }
	}
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if done, err := step(remember); err != nil || done {
			return err
		}
	}
}

func newOperation(verb, id string, req any) (operation, []byte, error) {
	if len(id) > MaxID {
		return operation{}, nil, api.Errorf(400, "bad_value", "request_id has %d bytes: at most %d", len(id), MaxID)
	}
	b, err := json.Marshal(req)
	if err != nil {
		return operation{}, nil, fmt.Errorf("%s: %w", verb, err)
	}
	name := shared(verb)
	if name != verb {
		b = append([]byte(verb+"\x00"), b...)
	}
	sum := sha256.Sum256(b)
	return operation{Body: hex.EncodeToString(sum[:]), Verb: verb}, append(append([]byte(name), 0), id...), nil
}

// Status says how far a decision got that named its intent.
type Status struct {
	Verb string
	Done bool
	// Reply of a decision that is done; of another one the state that its last commit left.
	Reply json.RawMessage
}

// Decision looks a decision up by its request id; ok is false where none was remembered.
func (o *Operations) Decision(graph, id string) (s Status, ok bool, err error) {
	if id == "" || len(id) > MaxID {
		return s, false, nil
	}
	b, err := o.st.Get(graph, space, append(append([]byte(Decisions), 0), id...))
	if err != nil || b == nil {
		return s, false, err
	}
	var op operation
	if err := json.Unmarshal(b, &op); err != nil {
		return s, false, fmt.Errorf("operation %s: %w", id, err)
	}
	s = Status{Verb: op.Verb, Done: op.Reply != nil, Reply: op.Reply}
	if !s.Done {
		s.Reply = op.State
	}
	return s, true, nil
}

func (op operation) rows(graph, verb string, key []byte, reply, state any, done bool) ([]store.Op, error) {
	into, from := &op.State, state
	if done {
		into, from = &op.Reply, reply
	}
	var err error
	if *into, err = json.Marshal(from); err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	row, err := json.Marshal(op)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	return []store.Op{{Graph: graph, Space: space, Key: key, Value: row}}, nil
}

// again answers a request that was answered before, or reads back how far it got.
func (op operation) again(stored []byte, id string, reply, state any) (done bool, err error) {
	var was operation
	if err := json.Unmarshal(stored, &was); err != nil {
		return false, fmt.Errorf("operation %s: %w", id, err)
	}
	if was.Body != op.Body {
		return false, api.Errorf(409, "operation_reused", "request_id %q was used for another body: give this one an id of its own", id)
	}
	from, into := was.Reply, reply
	if was.Reply == nil {
		from, into = was.State, state
	}
	if err := json.Unmarshal(from, into); err != nil {
		return false, fmt.Errorf("operation %s: %w", id, err)
	}
	return was.Reply != nil, nil
}

// alone lets one request of an id run at a time; the returned function ends its turn.
func (o *Operations) alone(ctx context.Context, id string) (done func(), err error) {
	o.mu.Lock()
	t := o.running[id]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		o.running[id] = t
	}
	t.waiting++
	o.mu.Unlock()
	leave := func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if t.waiting--; t.waiting == 0 {
			delete(o.running, id)
		}
	}
	limit := time.NewTimer(maxWait)
	defer limit.Stop()
	select {
	case <-t.free:
		return func() { t.free <- struct{}{}; leave() }, nil
	case <-limit.C:
		err = api.Errorf(503, "not_ready", "an earlier request of this id is still under way: ask again")
	case <-ctx.Done():
		err = ctx.Err()
	}
	leave()
	return nil, err
}
