package committer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/services/committer/internal/quarantine"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// measureEvery is how often the gauges below are set; a scrape reads what was set.
const measureEvery = 10 * time.Second

// Kinds in factmill_committer_review_items{kind}, and but for the first in factmill_committer_review_oldest_seconds{kind}.
var reviewKinds = []string{"candidate", "match", "stale", "conflict", "job"}

// meters are the committer's own metrics. The runner counts messages; the linker, the policy and the vectors have theirs in
// internal/links, internal/policy and internal/vectors.
type meters struct {
	commits   prometheus.Histogram
	documents prometheus.Counter
	jobsEnded *prometheus.CounterVec

	jobs                               *prometheus.GaugeVec
	heldOldest                         prometheus.Gauge
	review, oldest, waiting            *prometheus.GaugeVec
	dead, quarantined                  prometheus.Gauge
	storeBytes, storeFree, storeLimits prometheus.Gauge

	// Of measure alone: what was counted, and when.
	reviewed map[string]*reviewed
	counted  uint64 // quarantine.Changed, plus 1
	aside    atomic.Int64
}

func newMeters(reg prometheus.Registerer) (*meters, error) {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "factmill_committer_" + name, Help: help})
	}
	m := &meters{
		reviewed: map[string]*reviewed{},
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "factmill_committer_commit_seconds", Help: "Time of a commit of a job, to its sync.",
			Buckets: prometheus.ExponentialBuckets(0.002, 3, 11)}),
		documents: prometheus.NewCounter(prometheus.CounterOpts{Name: "factmill_committer_documents_total", Help: "Documents in commits."}),
		jobsEnded: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "factmill_committer_jobs_ended_total", Help: "Jobs by how they ended."}, []string{"state"}),

		jobs:        prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_jobs", Help: "Jobs that have not ended, by state."}, []string{"state"}),
		heldOldest:  gauge("held_oldest_seconds", "Age of the oldest job that is held; 0 without any."),
		review:      prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_review_items", Help: "What waits for a person, over all graphs, by kind."}, []string{"kind"}),
		dead:        gauge("dead_letters", "Messages in the dead-letter stream."),
		quarantined: gauge("quarantine_records", "Quarantined documents and sources."),
		storeBytes:  gauge("store_bytes", "Bytes of the store on disk."),
		storeFree:   gauge("store_free_bytes", "Free bytes of the store's disk."),
		storeLimits: gauge("store_reserve_bytes", "Free bytes that commits leave alone."),
	}
	m.oldest = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_review_oldest_seconds",
		Help: "Age of what has waited longest for a person, over all graphs, by kind; 0 without any. The reviewer tells it of candidates."}, []string{"kind"})
	m.waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "factmill_committer_waiting_messages",
		Help: "Messages before each stage that nobody has answered, also where no replica of the stage runs."}, []string{"stage"})
	for _, k := range reviewKinds {
		m.review.WithLabelValues(k)
		if k != "candidate" {
			m.oldest.WithLabelValues(k)
		}
	}
	for _, state := range []string{api.JobCommitted, api.JobRolledBack} { // from 0: a rate sees the first one, too
		m.jobsEnded.WithLabelValues(state)
	}
	for _, c := range []prometheus.Collector{m.commits, m.documents, m.jobsEnded, m.jobs, m.heldOldest, m.review, m.oldest, m.waiting, m.dead, m.quarantined, m.storeBytes, m.storeFree, m.storeLimits} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("register metrics of the committer: %w", err)
		}
	}
	return m, nil
}

func (m *meters) committed(took time.Duration, documents int) {
	m.commits.Observe(took.Seconds())
	m.documents.Add(float64(documents))
}

func (m *meters) ended(state string) { m.jobsEnded.WithLabelValues(state).Inc() }

// measure sets the gauges until ctx is done.
func (s *Service) measure(ctx context.Context) error {
	t := time.NewTicker(measureEvery)
	defer t.Stop()
	for {
		if err := s.measureOnce(ctx); err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			s.log.Debug("not everything could be measured", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

func (s *Service) measureOnce(ctx context.Context) error {
	m := s.meters
	c := s.jobs.Census()
	for _, state := range []string{"pending", "held", "rolling_back"} {
		m.jobs.WithLabelValues(state).Set(float64(c.States[state]))
	}
	age := 0.0
	if !c.OldestHeld.IsZero() {
		age = s.now().Sub(c.OldestHeld).Seconds()
	}
	m.heldOldest.Set(max(0, age))
	m.oldest.WithLabelValues("job").Set(max(0, age))
	return errors.Join(s.measureStore(m), s.measureReview(ctx, m, c.States["held"]), s.measureQuarantine(m), s.measureStreams(ctx, m))
}

func (s *Service) measureStore(m *meters) error {
	u, err := s.st.Usage()
	if err != nil {
		return err
	}
	m.storeBytes.Set(float64(u.Bytes))
	m.storeLimits.Set(float64(u.Reserve))
	if u.Known {
		m.storeFree.Set(float64(u.Free))
	}
	return nil
}

// reviewed is what waits in a graph, as of a commit.
type reviewed struct {
	seq uint64
	n   map[string]int
	// Of the conflicts: as of which commit, and when they were counted.
	conflictsAt uint64
	seen        time.Time
}

// measureReview reads one row of each graph that was committed to, and counts its conflicts at most once a minute.
func (s *Service) measureReview(ctx context.Context, m *meters, held int) error {
	total := map[string]int{"job": held}
	var errs []error
	for _, g := range s.st.Graphs() {
		if err := s.reviewOf(ctx, m, g); err != nil && !errors.Is(err, store.ErrNoGraph) {
			errs = append(errs, err)
		}
		if was := m.reviewed[g]; was != nil {
			for k, n := range was.n {
				total[k] += n
			}
		}
	}
	for _, k := range reviewKinds {
		m.review.WithLabelValues(k).Set(float64(total[k]))
	}
	return errors.Join(errs...)
}

func (s *Service) reviewOf(ctx context.Context, m *meters, graph string) error {
	seq, err := s.st.Seq(graph)
	if err != nil {
		return err
	}
	was := m.reviewed[graph]
	if was == nil {
		was = &reviewed{n: map[string]int{}}
		m.reviewed[graph] = was
	}
	if was.seq != seq {
		c, err := s.counts(graph)
		if err != nil {
			return err
		}
		was.seq, was.n["candidate"], was.n["match"], was.n["stale"] = seq, c.Candidates, c.Matches[store.MatchUnclear], c.Stale
	}
	if was.conflictsAt == seq || s.now().Sub(was.seen) < time.Minute {
		return nil
	}
	was.conflictsAt, was.seen = seq, s.now()
	r, err := s.conflicts.List(ctx, graph, api.ConflictsList{})
	if err != nil {
		return err
	}
	was.n["conflict"] = 0
	for _, n := range r.Reasons {
		was.n["conflict"] += n
	}
	return nil
}

func (s *Service) counts(graph string) (c store.Counts, err error) {
	sn, err := s.st.Snapshot(graph, 0)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	return sn.Counts()
}

func (s *Service) measureQuarantine(m *meters) error {
	now := quarantine.Changed(s.st) + 1
	if now == m.counted {
		return nil
	}
	n, err := quarantine.Count(s.st)
	if err == nil {
		m.counted = now
		m.aside.Store(int64(n))
		m.quarantined.Set(float64(n))
	}
	return err
}

func (s *Service) measureStreams(ctx context.Context, m *meters) error {
	ctx, cancel := context.WithTimeout(ctx, streamTimeout)
	defer cancel()
	stream, err := s.conn.JS.Stream(ctx, bus.StreamDead)
	if err != nil {
		return fmt.Errorf("count dead letters: %w", err)
	}
	m.dead.Set(float64(stream.CachedInfo().State.Msgs))
	for _, q := range stageQueues {
		c, err := s.conn.JS.Consumer(ctx, q.stream, q.durable)
		if err != nil {
			return fmt.Errorf("count what waits before the %s: %w", q.stage, err)
		}
		info := c.CachedInfo() // a handle is made from fresh information
		m.waiting.WithLabelValues(q.stage).Set(float64(info.NumPending) + float64(info.NumAckPending))
	}
	return nil
}

// health answers query.health.
func (s *Service) health(_ context.Context, graph string) (r api.HealthReply, err error) {
	u, err := s.st.Usage()
	if err != nil {
		return r, err
	}
	graphs := s.st.Graphs()
	c, known := s.jobs.Census(), slices.Contains(graphs, graph)
	r = api.HealthReply{
		Time: s.now().UTC().Format(time.RFC3339Nano), Format: store.Format, Epoch: s.st.Epoch(), Bytes: u.Bytes, FreeBytes: -1, ReserveBytes: u.Reserve,
		Graphs: len(graphs), Known: &known, Jobs: c.States, Quarantined: int(s.meters.aside.Load()),
	}
	if u.Known {
		r.FreeBytes = int64(min(u.Free, math.MaxInt64))
	}
	if !c.OldestHeld.IsZero() {
		r.OldestHeld = c.OldestHeld.UTC().Format(time.RFC3339Nano)
	}
	return r, nil
}
