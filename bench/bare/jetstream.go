package bare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/bus/embedded"
	"github.com/factmill/factmill/pkg/events"
)

// hop is a stage that does nothing but read, write and acknowledge.
type hop struct {
	stream, durable string
	in              []string // kinds
	out             []string
}

// hops are the stages between the streams.
var hops = []hop{
	{bus.StreamFound, bus.DurableLoader, []string{events.KindFound}, []string{events.KindLoaded}},
	{bus.StreamLoaded, bus.DurableChunker, []string{events.KindLoaded}, []string{events.KindChunked, events.KindStaged}},
	{bus.StreamChunked, bus.DurableExtractor, []string{events.KindChunked}, []string{events.KindExtracted}},
	{bus.StreamExtracted, bus.DurableResolver, []string{events.KindExtracted}, []string{events.KindResolved}},
	{bus.StreamCommit, bus.DurableCommitter, []string{events.KindStaged, events.KindResolved}, nil},
}

// JetStream sends n documents through the streams and consumers of Factmill's table, with messages of the sizes that traffic has, and
// returns how long that took from the first message to the last acknowledgement. The server has the settings of the embedded one, and
// clients work in its process, as those of `factmill up` do.
func JetStream(ctx context.Context, dir string, n int, t Traffic) (took time.Duration, err error) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	srv, err := embedded.Start(ctx, embedded.Options{Dir: dir, Log: log})
	if err != nil {
		return 0, err
	}
	defer srv.Shutdown(true)
	conn, err := bus.Connect(ctx, bus.Options{InProcess: srv, Name: "bare", Log: log})
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := bus.EnsureAll(ctx, conn.JS, bus.NewTable(bus.TableOptions{})); err != nil {
		return 0, err
	}
	begin := time.Now()
	all, ctx := errgroup.WithContext(ctx)
	for _, h := range hops {
		all.Go(func() error {
			c, err := bus.Connect(ctx, bus.Options{InProcess: srv, Name: h.durable, Log: log})
			if err != nil {
				return err
			}
			defer c.Close()
			return h.run(ctx, c, n, t)
		})
	}
	all.Go(func() error {
		out := newSender(conn, t)
		for i := range n {
			if _, err := out.send(events.KindFound, i); err != nil {
				return err
			}
		}
		return out.settle(ctx)
	})
	if err := all.Wait(); err != nil {
		return 0, fmt.Errorf("bare JetStream: %w", err)
	}
	return time.Since(begin), nil
}

// inFlight is how many publications a stage has under way.
const inFlight = 1024

type sender struct {
	js     jetstream.JetStream
	bodies map[string][]byte
}

func newSender(c *bus.Conn, t Traffic) *sender {
	js, err := jetstream.New(c.NC, jetstream.WithPublishAsyncMaxPending(inFlight))
	if err != nil {
		panic(err) // no option is wrong
	}
	s := &sender{js: js, bodies: map[string][]byte{}}
	for kind, a := range t {
		if stage(kind) && a.Messages > 0 {
			s.bodies[kind] = bytes.Repeat([]byte("x"), max(1, a.Bytes/a.Messages-120)) // the rest is subject and header
		}
	}
	return s
}

func (s *sender) send(kind string, doc int) (jetstream.PubAckFuture, error) {
	id := strconv.Itoa(doc)
	m := nats.NewMsg(events.Root + ".default." + kind + ".j1." + id)
	m.Header.Set(nats.MsgIdHdr, "default:"+kind+":j1:"+id)
	m.Data = s.bodies[kind]
	return s.js.PublishMsgAsync(m)
}

func (s *sender) settle(ctx context.Context) error {
	select {
	case <-s.js.PublishAsyncComplete():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run takes all messages of a stage; each is acknowledged when what follows from it is stored.
func (h hop) run(ctx context.Context, c *bus.Conn, n int, t Traffic) error {
	out := newSender(c, t)
	cons, err := c.JS.Consumer(ctx, h.stream, h.durable)
	if err != nil {
		return err
	}
	it, err := cons.Messages(jetstream.PullMaxMessages(inFlight))
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, it.Stop)
	defer stop()
	defer it.Stop()
	type pending struct {
		m    jetstream.Msg
		acks []jetstream.PubAckFuture
	}
	wait := make(chan pending, inFlight)
	var acks errgroup.Group
	acks.Go(func() (err error) {
		for p := range wait {
			for _, a := range p.acks {
				select {
				case <-a.Ok():
				case e := <-a.Err():
					err = errors.Join(err, e)
				}
			}
			err = errors.Join(err, p.m.Ack())
		}
		return err
	})
	err = func() error {
		for i := range n * len(h.in) {
			m, err := it.Next()
			if err != nil {
				return err
			}
			p := pending{m: m}
			for _, kind := range h.out {
				a, err := out.send(kind, i)
				if err != nil {
					return err
				}
				p.acks = append(p.acks, a)
			}
			wait <- p
		}
		return nil
	}()
	close(wait)
	return errors.Join(err, acks.Wait(), c.NC.Flush())
}
