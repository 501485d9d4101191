package bus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// What a step does.
const (
	ActionCreate = "create"
	ActionUpdate = "update"
	ActionOK     = "ok"
	// ActionRefused: NATS cannot change it in place.
	ActionRefused = "refused"
)

// What a step is about.
const (
	KindStream   = "stream"
	KindConsumer = "consumer"
	KindBucket   = "bucket"
)

// Step is one line of a plan.
type Step struct {
	Action string `json:"action"`
	Kind   string `json:"kind"`
	// Name of the stream or bucket; of a consumer "<stream>/<durable>".
	Name string `json:"name"`
	// Diff has one "field: have -> want" a difference, in the order of the fields.
	Diff []string `json:"diff,omitempty"`

	apply func(ctx context.Context, js jetstream.JetStream) error
}

// ErrRefusedChange says that a difference cannot be changed in place; the message names it.
var ErrRefusedChange = errors.New("cannot be changed in place")

// ErrDiffers says that a stream or consumer is not configured as the services need it.
var ErrDiffers = errors.New("the configuration in NATS differs")

// field is one compared setting.
type field struct {
	name       string
	want, have any
	// fixed: NATS refuses to change it. meaning: a service must not run when it differs; the others are sizes that an operator may tune.
	fixed, meaning bool
}

func (f field) differs() bool { return f.want != f.have }

func (f field) String() string { return fmt.Sprintf("%s: %v -> %v", f.name, f.have, f.want) }

// Plan compares the table with what exists and says what Apply would do. It changes nothing.
func Plan(ctx context.Context, js jetstream.JetStream, t Table) ([]Step, error) {
	var steps []Step
	for _, want := range t.Streams {
		s, err := planStream(ctx, js, want)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	for _, want := range t.Consumers {
		s, err := planConsumer(ctx, js, want)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	for _, want := range t.Buckets {
		s, err := planBucket(ctx, js, want)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// Apply carries out a plan. When a step is refused nothing is changed, and the error names each such difference.
func Apply(ctx context.Context, js jetstream.JetStream, steps []Step) error {
	var refused []error
	for _, s := range steps {
		if s.Action == ActionRefused {
			refused = append(refused, fmt.Errorf("%s %s: %s: %w", s.Kind, s.Name, strings.Join(s.Diff, ", "), ErrRefusedChange))
		}
	}
	if len(refused) > 0 {
		return errors.Join(refused...)
	}
	for _, s := range steps {
		if s.apply == nil {
			continue
		}
		if err := s.apply(ctx, js); err != nil {
			return fmt.Errorf("%s %s %s: %w", s.Action, s.Kind, s.Name, err)
		}
	}
	return nil
}

// EnsureAll plans and applies: for the embedded server, whose streams belong to the process.
func EnsureAll(ctx context.Context, js jetstream.JetStream, t Table) error {
	steps, err := Plan(ctx, js, t)
	if err != nil {
		return err
	}
	return Apply(ctx, js, steps)
}

// Check reads back the effective configuration. It returns one ErrDiffers for each setting that a service relies on: what is
// missing or, by stream and field, what is wanted and what is there. Sizes, ages and replicas are the operator's.
func Check(ctx context.Context, js jetstream.JetStream, t Table) error {
	var errs []error
	for _, want := range t.Streams {
		s, err := js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("stream %s does not exist: run factmill provision: %w", want.Name, ErrDiffers))
			continue
		}
		if err != nil {
			return fmt.Errorf("read stream %s: %w", want.Name, err)
		}
		errs = append(errs, mismatches("stream "+want.Name, streamFields(want, s.CachedInfo().Config))...)
	}
	for _, want := range t.Consumers {
		name := want.Stream + "/" + want.Config.Durable
		c, err := js.Consumer(ctx, want.Stream, want.Config.Durable)
		if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
			errs = append(errs, fmt.Errorf("consumer %s does not exist: run factmill provision: %w", name, ErrDiffers))
			continue
		}
		if err != nil {
			return fmt.Errorf("read consumer %s: %w", name, err)
		}
		errs = append(errs, mismatches("consumer "+name, consumerFields(want.Config, c.CachedInfo().Config))...)
	}
	for _, want := range t.Buckets {
		_, err := js.ObjectStore(ctx, want.Bucket)
		if errors.Is(err, jetstream.ErrBucketNotFound) {
			errs = append(errs, fmt.Errorf("bucket %s does not exist: run factmill provision: %w", want.Bucket, ErrDiffers))
		} else if err != nil {
			return fmt.Errorf("read bucket %s: %w", want.Bucket, err)
		}
	}
	return errors.Join(errs...)
}

// Check is Check of what the connection is connected to. A permission that is missing ends it at once: 403 not_allowed.
func (c *Conn) Check(ctx context.Context, t Table) error {
	ctx, done := c.WhileAllAllowed(ctx)
	defer done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.gone, func() { cancel(context.Cause(c.gone)) })()
	err := Check(ctx, c.JS, t)
	if denied := Denied(ctx, err); denied != err {
		return fmt.Errorf("%s lacks a permission at NATS: %w", c.name, denied)
	}
	if why := context.Cause(c.gone); err != nil && why != nil {
		return why
	}
	return err
}

// Needs returns the part of the table that a service relies on: the given streams with their consumers, and the buckets.
func (t Table) Needs(streams ...string) Table {
	out := Table{Buckets: t.Buckets}
	for _, s := range t.Streams {
		if slices.Contains(streams, s.Name) {
			out.Streams = append(out.Streams, s)
		}
	}
	for _, c := range t.Consumers {
		if slices.Contains(streams, c.Stream) {
			out.Consumers = append(out.Consumers, c)
		}
	}
	return out
}

func mismatches(what string, fields []field) (errs []error) {
	for _, f := range fields {
		if f.meaning && f.differs() {
			errs = append(errs, fmt.Errorf("%s: %s is %v, want %v: run factmill provision, or give the service the same settings: %w",
				what, f.name, f.have, f.want, ErrDiffers))
		}
	}
	return errs
}

func streamFields(want, have jetstream.StreamConfig) []field {
	list := func(s []string) string { s = slices.Clone(s); slices.Sort(s); return strings.Join(s, " ") }
	return []field{
		{name: "subjects", want: list(want.Subjects), have: list(have.Subjects), meaning: true},
		{name: "retention", want: want.Retention.String(), have: have.Retention.String(), fixed: true, meaning: true},
		{name: "storage", want: want.Storage.String(), have: have.Storage.String(), fixed: true, meaning: true},
		{name: "discard", want: want.Discard.String(), have: have.Discard.String(), meaning: true},
		{name: "duplicate window", want: want.Duplicates, have: have.Duplicates, meaning: true},
		{name: "atomic batches", want: want.AllowAtomicPublish, have: have.AllowAtomicPublish, meaning: true},
		{name: "messages a subject", want: want.MaxMsgsPerSubject, have: max(have.MaxMsgsPerSubject, 0), meaning: want.MaxMsgsPerSubject > 0},
		{name: "counters", want: want.AllowMsgCounter, have: have.AllowMsgCounter, fixed: true, meaning: true},
		{name: "direct reads", want: want.AllowDirect, have: have.AllowDirect, meaning: want.AllowDirect},
		{name: "deny delete", want: want.DenyDelete, have: have.DenyDelete, fixed: have.DenyDelete, meaning: true},
		{name: "deny purge", want: want.DenyPurge, have: have.DenyPurge, fixed: have.DenyPurge, meaning: true},
		{name: "max bytes", want: want.MaxBytes, have: have.MaxBytes},
		{name: "max age", want: want.MaxAge, have: have.MaxAge},
		{name: "replicas", want: want.Replicas, have: have.Replicas},
	}
}

func consumerFields(want, have jetstream.ConsumerConfig) []field {
	return []field{
		{name: "ack policy", want: want.AckPolicy.String(), have: have.AckPolicy.String(), fixed: true, meaning: true},
		{name: "deliver policy", want: want.DeliverPolicy.String(), have: have.DeliverPolicy.String(), fixed: true, meaning: true},
		{name: "filter", want: want.FilterSubject, have: have.FilterSubject, meaning: true},
		{name: "ack wait", want: want.AckWait, have: have.AckWait, meaning: true},
		{name: "max deliver", want: want.MaxDeliver, have: have.MaxDeliver, meaning: true},
		{name: "back-off", want: durations(want.BackOff), have: durations(have.BackOff), meaning: true},
		{name: "max ack pending", want: want.MaxAckPending, have: have.MaxAckPending},
	}
}

func durations(d []time.Duration) string {
	if len(d) == 0 {
		return "none"
	}
	return fmt.Sprint(d)
}

// step compares and names the action; nil apply for what needs none.
func step(kind, name string, fields []field) Step {
	s := Step{Action: ActionOK, Kind: kind, Name: name}
	for _, f := range fields {
		if !f.differs() {
			continue
		}
		s.Diff = append(s.Diff, f.String())
		if s.Action != ActionRefused {
			s.Action = ActionUpdate
		}
		if f.fixed {
			s.Action = ActionRefused
		}
	}
	return s
}

func planStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) (Step, error) {
	have, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Step{Action: ActionCreate, Kind: KindStream, Name: want.Name, apply: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateStream(ctx, want)
			return err
		}}, nil
	}
	if err != nil {
		return Step{}, fmt.Errorf("read stream %s: %w", want.Name, err)
	}
	// What the table does not speak of (placement, mirrors, tags) stays as the operator has it.
	c := have.CachedInfo().Config
	s := step(KindStream, want.Name, streamFields(want, c))
	if s.Action == ActionUpdate {
		c.Subjects, c.Discard, c.Duplicates, c.AllowAtomicPublish = want.Subjects, want.Discard, want.Duplicates, want.AllowAtomicPublish
		c.DenyDelete, c.DenyPurge, c.MaxBytes, c.MaxAge, c.Replicas = want.DenyDelete, want.DenyPurge, want.MaxBytes, want.MaxAge, want.Replicas
		s.apply = func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateStream(ctx, c)
			return err
		}
	}
	return s, nil
}

func planConsumer(ctx context.Context, js jetstream.JetStream, want ConsumerSpec) (Step, error) {
	name := want.Stream + "/" + want.Config.Durable
	have, err := js.Consumer(ctx, want.Stream, want.Config.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		return Step{Action: ActionCreate, Kind: KindConsumer, Name: name, apply: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateConsumer(ctx, want.Stream, want.Config)
			return err
		}}, nil
	}
	if err != nil {
		return Step{}, fmt.Errorf("read consumer %s: %w", name, err)
	}
	c := have.CachedInfo().Config
	s := step(KindConsumer, name, consumerFields(want.Config, c))
	if s.Action == ActionUpdate {
		c.FilterSubject, c.FilterSubjects = want.Config.FilterSubject, nil
		c.AckWait, c.MaxDeliver, c.BackOff, c.MaxAckPending = want.Config.AckWait, want.Config.MaxDeliver, want.Config.BackOff, want.Config.MaxAckPending
		s.apply = func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateConsumer(ctx, want.Stream, c)
			return err
		}
	}
	return s, nil
}

func planBucket(ctx context.Context, js jetstream.JetStream, want jetstream.ObjectStoreConfig) (Step, error) {
	have, err := js.Stream(ctx, "OBJ_"+want.Bucket)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return Step{Action: ActionCreate, Kind: KindBucket, Name: want.Bucket, apply: func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.CreateObjectStore(ctx, want)
			return err
		}}, nil
	}
	if err != nil {
		return Step{}, fmt.Errorf("read bucket %s: %w", want.Bucket, err)
	}
	c := have.CachedInfo().Config
	s := step(KindBucket, want.Bucket, []field{
		{name: "storage", want: want.Storage.String(), have: c.Storage.String(), fixed: true},
		{name: "max bytes", want: want.MaxBytes, have: c.MaxBytes},
		{name: "replicas", want: want.Replicas, have: c.Replicas},
	})
	if s.Action == ActionUpdate {
		s.apply = func(ctx context.Context, js jetstream.JetStream) error {
			_, err := js.UpdateObjectStore(ctx, want)
			return err
		}
	}
	return s, nil
}
