package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/bus"
)

// minNATS has atomic batches and counters, which the streams need.
var minNATS = [2]int{2, 12}

// nearlyFull is the part of its room from which a stream or a store counts as nearly full.
const nearlyFull = 0.8

func (d *doctor) nats(ctx context.Context) error {
	v := d.Conn.NC.ConnectedServerVersion()
	parts := strings.SplitN(v, ".", 3)
	if len(parts) == 3 {
		major, err1 := strconv.Atoi(parts[0])
		minor, err2 := strconv.Atoi(parts[1])
		if err1 == nil && err2 == nil && (major < minNATS[0] || major == minNATS[0] && minor < minNATS[1]) {
			d.find("nats_too_old", Error, "the NATS server has version "+v, fmt.Sprintf("the streams need %d.%d or newer", minNATS[0], minNATS[1]), "update nats-server")
		}
	}
	info, err := d.Conn.JS.AccountInfo(ctx)
	if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		d.find("no_jetstream", Error, "the NATS server has no JetStream for this account", "nothing can be ingested", "nats-server -js")
		return nil
	}
	if err != nil {
		return err
	}
	if max := info.Limits.MaxStore; max > 0 && float64(info.Store) > nearlyFull*float64(max) {
		d.find("jetstream_nearly_full", Warning, fmt.Sprintf("JetStream holds %d of the %d bytes that the account may have", info.Store, max),
			"full streams refuse what is published: every stage then waits", "nats account info")
	}
	if rtt, err := d.Conn.NC.RTT(); err == nil && rtt > time.Second {
		d.find("nats_slow", Warning, "a round trip to NATS takes "+rtt.Round(10*time.Millisecond).String(), "each message costs several of them", "nats rtt")
	}
	return nil
}

// greeting is what a server says to whoever connects.
type greeting struct {
	Host string `json:"host"`
	Auth bool   `json:"auth_required"`
	TLS  bool   `json:"tls_required"`
}

// listening looks whether everybody who can reach the server may do everything, or read along.
func (d *doctor) listening(context.Context) error {
	var g greeting
	if d.Embedded || json.Unmarshal([]byte(strings.TrimPrefix(d.Greeting, "INFO ")), &g) != nil { // or TLS from the first byte, or a socket of another kind
		return nil
	}
	if ip := net.ParseIP(g.Host); g.Host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	const fix = "factmill up --listen 127.0.0.1:4222, or give the NATS server users and TLS"
	if !g.Auth {
		d.find("listens_without_auth", Error, "NATS listens on "+g.Host+" and asks nobody who they are", "whoever reaches it may ingest, decide and read everything", fix)
	}
	if !g.TLS {
		d.find("listens_without_tls", Warning, "NATS listens on "+g.Host+" without TLS", "documents and facts can be read on the way", fix)
	}
	return nil
}

// streams compares what the services rely on with what is there, and looks at the room.
func (d *doctor) streams(ctx context.Context) error {
	table := d.Config.Table()
	err := d.Conn.Check(ctx, table)
	for _, e := range unjoined(err) {
		if !errors.Is(e, bus.ErrDiffers) {
			return e
		}
		what, _, _ := strings.Cut(e.Error(), ": run factmill provision")
		d.find("stream_differs", Error, what, "services refuse to start on it, and messages may have nowhere to go", "factmill provision --apply"+d.as("provision"))
	}
	for _, want := range table.Streams {
		s, err := d.Conn.JS.Stream(ctx, want.Name)
		if err != nil {
			continue // found above
		}
		info := s.CachedInfo()
		if want.Discard == jetstream.DiscardNew && info.Config.MaxBytes > 0 && float64(info.State.Bytes) > nearlyFull*float64(info.Config.MaxBytes) {
			d.find("stream_nearly_full", Warning, fmt.Sprintf("the stream %s holds %d of %d bytes", want.Name, info.State.Bytes, info.Config.MaxBytes),
				"when it is full whoever publishes to it waits: its reader is too slow or away", d.factmill("jobs list"))
		}
		d.copies(info)
	}
	return nil
}

// copies looks at a stream's replicas.
func (d *doctor) copies(info *jetstream.StreamInfo) {
	c := info.Cluster
	if c == nil || info.Config.Replicas < 2 {
		return
	}
	if c.Leader == "" {
		d.find("stream_without_leader", Error, "the stream "+info.Config.Name+" has no leader", "nothing can be published to it or read from it", "nats stream report")
	}
	for _, p := range c.Replicas {
		if p.Offline || !p.Current {
			d.find("stream_replica_away", Warning, fmt.Sprintf("the copy of %s on %s is away or behind", info.Config.Name, p.Name),
				"with another server lost the stream stands still", "nats stream report")
		}
	}
}

func unjoined(err error) []error {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		return j.Unwrap()
	}
	return []error{err}
}

// stuck is from when a message that is in somebody's hands counts as stuck.
const stuck = 10 * time.Minute

// reading is a consumer at one moment.
type reading struct {
	spec bus.ConsumerSpec
	info *jetstream.ConsumerInfo
}

// consumers looks twice whether what waits moves.
func (d *doctor) consumers(ctx context.Context) error {
	first, err := d.readings(ctx)
	if err != nil {
		return err
	}
	waits := false
	for _, r := range first {
		waits = waits || r.info.NumPending > 0 || r.info.NumAckPending > 0
	}
	if !waits {
		return nil
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	second, err := d.readings(ctx)
	if err != nil {
		return err
	}
	for name, was := range first {
		if now, ok := second[name]; ok {
			d.moves(name, was.info, now)
		}
	}
	return nil
}

func (d *doctor) moves(name string, was *jetstream.ConsumerInfo, r reading) {
	now := r.info
	lag := int(now.NumPending) + now.NumAckPending
	if lag == 0 || now.Delivered.Stream != was.Delivered.Stream || now.AckFloor.Stream != was.AckFloor.Stream || now.NumAckPending != was.NumAckPending ||
		now.NumPending < was.NumPending {
		return
	}
	messages := count(lag, "message waits", "messages wait")
	durable := r.spec.Config.Durable
	why := "their jobs do not go on"
	switch {
	case now.Paused:
		d.find("consumer_paused", Error, fmt.Sprintf("the consumer %s is paused and %s", name, messages), why, "nats consumer resume "+strings.ReplaceAll(name, "/", " "))
	case now.NumWaiting == 0 && now.NumAckPending == 0:
		d.find("consumer_stalled", Error, fmt.Sprintf("%s before the %s (%s) and nobody asks for them", messages, durable, name), why,
			d.serve(durable))
	case was.AckFloor.Last == nil || d.Now().Sub(*was.AckFloor.Last) > stuck:
		if was.Delivered.Last != nil && d.Now().Sub(*was.Delivered.Last) < stuck {
			return // it was given something a moment ago
		}
		d.find("consumer_stuck", Error, fmt.Sprintf("%s before the %s (%s) and none was answered for %s", messages, durable, name, ago(stuck)), why,
			d.factmill("jobs list"))
	}
}

func (d *doctor) readings(ctx context.Context) (map[string]reading, error) {
	out := map[string]reading{}
	for _, spec := range d.Config.Table().Consumers {
		c, err := d.Conn.JS.Consumer(ctx, spec.Stream, spec.Config.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			continue // found by the table
		}
		if err != nil {
			return nil, err
		}
		out[spec.Stream+"/"+spec.Config.Durable] = reading{spec, c.CachedInfo()}
	}
	return out, nil
}
