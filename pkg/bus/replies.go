package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
)

// ReplySubject is where a model's reply is kept: under its graph, the extraction fingerprint, and a hash of what the model was shown.
func ReplySubject(graph, fp, shown string) (string, error) {
	if err := events.CheckGraph(graph); err != nil {
		return "", err
	}
	for _, t := range []string{fp, shown} {
		if t == "" || len(t) > 64 || strings.Trim(t, "0123456789abcdef") != "" {
			return "", fmt.Errorf("reply: %.70q is no hash", t)
		}
	}
	return strings.Join([]string{events.Root, graph, "reply", fp, shown}, "."), nil
}

// KeepReply stores a reply; it is there when KeepReply returns. A newer one replaces it.
func (c *Conn) KeepReply(ctx context.Context, graph, fp, shown string, body []byte) error {
	subject, err := ReplySubject(graph, fp, shown)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	if _, err := c.JS.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: body}, jetstream.WithExpectStream(StreamReplies)); err != nil {
		return fault.Retry("bus", 0, fmt.Errorf("keep a reply on %s: %w", subject, err))
	}
	return nil
}

// Reply returns a kept reply, nil when there is none.
func (c *Conn) Reply(ctx context.Context, graph, fp, shown string) ([]byte, error) {
	subject, err := ReplySubject(graph, fp, shown)
	if err != nil {
		return nil, err
	}
	m, err := c.lastOn(ctx, StreamReplies, subject)
	if err != nil || m == nil {
		return nil, err
	}
	return m.Data, nil
}

// lastOn is the last message on a subject of a stream, asked without a look at the stream; nil when there is none.
func (c *Conn) lastOn(ctx context.Context, stream, subject string) (*nats.Msg, error) {
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	m, err := c.NC.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+stream+"."+subject, nil)
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return nil, fault.Retry("bus", 0, fmt.Errorf("look on %s: the stream %s does not answer: run factmill provision", subject, stream))
	case err != nil:
		return nil, fault.Retry("bus", 0, fmt.Errorf("look on %s: %w", subject, err))
	}
	switch m.Header.Get("Status") {
	case "":
		return m, nil
	case "404":
		return nil, nil
	}
	return nil, fault.Retry("bus", 0, fmt.Errorf("look on %s: %s %s", subject, m.Header.Get("Status"), m.Header.Get("Description")))
}

// Spend adds tokens to what a job has spent, over all replicas, and returns the sum. 0 only asks.
func (c *Conn) Spend(ctx context.Context, graph, job string, tokens int) (int, error) {
	if err := events.CheckGraph(graph); err != nil {
		return 0, err
	}
	subject := counter(graph, "spent", job)
	if tokens <= 0 { // nothing to count
		return c.spent(ctx, subject)
	}
	ctx, stop := context.WithTimeout(ctx, ackTimeout)
	defer stop()
	ack, err := c.JS.PublishMsg(ctx, increment(subject, tokens)) // a counter takes no expectations
	if err != nil {
		return 0, fault.Retry("bus", 0, fmt.Errorf("count tokens on %s: %w", subject, err))
	}
	return counted(subject, ack.Value)
}

// Count adds to what a job has asked and spent without waiting for the broker, which may lose it: nothing may be decided by it.
func (c *Conn) Count(graph, job string, requests, tokens int) error {
	if err := events.CheckGraph(graph); err != nil {
		return err
	}
	for kind, n := range map[string]int{"asked": requests, "spent": tokens} {
		if n <= 0 {
			continue
		}
		if err := c.NC.PublishMsg(increment(counter(graph, kind, job), n)); err != nil {
			return fmt.Errorf("count on %s: %w", counter(graph, kind, job), err)
		}
	}
	return nil
}

// Cost is what a job has asked and spent, in all its attempts and over all replicas.
func (c *Conn) Cost(ctx context.Context, graph, job string) (requests, tokens int, err error) {
	if err := events.CheckGraph(graph); err != nil {
		return 0, 0, err
	}
	if requests, err = c.spent(ctx, counter(graph, "asked", job)); err != nil {
		return 0, 0, err
	}
	tokens, err = c.spent(ctx, counter(graph, "spent", job))
	return requests, tokens, err
}

func counter(graph, kind, job string) string {
	return strings.Join([]string{events.Root, graph, kind, job}, ".")
}

func increment(subject string, by int) *nats.Msg {
	return &nats.Msg{Subject: subject, Header: nats.Header{"Nats-Incr": {"+" + strconv.Itoa(by)}}}
}

func (c *Conn) spent(ctx context.Context, subject string) (int, error) {
	m, err := c.lastOn(ctx, StreamSpent, subject)
	if err != nil || m == nil {
		return 0, err
	}
	var v struct {
		Val string `json:"val"`
	}
	if err := json.Unmarshal(m.Data, &v); err != nil {
		return 0, fault.Fatal("counter", "count tokens on %s: %w", subject, err)
	}
	return counted(subject, v.Val)
}

func counted(subject, value string) (int, error) {
	n, ok := new(big.Int).SetString(value, 10)
	if !ok || !n.IsInt64() {
		return 0, fault.Fatal("counter", "count tokens on %s: the server answers %q", subject, value)
	}
	return int(n.Int64()), nil
}
