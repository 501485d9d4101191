package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/llm"
)

// skew is how far clocks may be apart.
const skew = 5 * time.Second

var errNoCommitter = errors.New("no committer answers")

func (d *doctor) ask(ctx context.Context, verb string, req, reply any) error {
	if d.skipped["committer"] {
		return errNoCommitter
	}
	return d.Conn.Consult(ctx, events.Root+"."+d.Graph+"."+verb, req, reply)
}

// store looks at the committer's room, at held jobs and quarantine, and at the clocks.
func (d *doctor) store(ctx context.Context) error {
	began := d.Now()
	var h api.HealthReply
	if err := d.ask(ctx, "query.health", nil, &h); err != nil {
		return err
	}
	took := d.Now().Sub(began)
	free := h.FreeBytes
	switch {
	case free < 0:
	case uint64(free) < h.ReserveBytes:
		d.find("no_space", Error, fmt.Sprintf("the store's disk has %d bytes free, store.reserve is %d", free, h.ReserveBytes), "commits are refused until there is room; reads go on",
			"free disk space, or lower store.reserve")
	case uint64(free) < 2*h.ReserveBytes:
		d.find("little_space", Warning, fmt.Sprintf("the store's disk has %d bytes free, store.reserve is %d", free, h.ReserveBytes), "commits will be refused soon",
			"free disk space, or lower store.reserve")
	}
	if n := h.Jobs[api.JobHeld]; n > 0 {
		since := ""
		if at, err := time.Parse(time.RFC3339Nano, h.OldestHeld); err == nil {
			since = ", the oldest for " + ago(began.Sub(at))
		}
		d.find("jobs_held", Warning, count(n, "job is held", "jobs are held")+since, "what is in them is not in the graph until a person decides", d.factmill("review list --kind job"))
	}
	if h.Quarantined > 0 {
		d.find("quarantine", Warning, count(h.Quarantined, "document or source is", "documents and sources are")+" in quarantine", "they are not in the graph",
			d.factmill("dead-letters list --kind quarantine"))
	}
	d.clock("the committer", h.Time, began, took)
	if h.Known != nil && !*h.Known && d.Graph != events.DefaultGraph {
		d.find("no_such_graph", Warning, fmt.Sprintf("there is no graph %s here: nothing was ever put into it (%s)", d.Graph, count(h.Graphs, "graph is", "graphs are")+" there"),
			"a graph begins with the first thing that is put into it: a name that is spelled otherwise is another graph", "give --graph the right name, or factmill ingest PATH"+d.At)
	}
	return nil
}

// behind finds a store that does not have what was announced: another volume than the one before, or one that was put back. It compares the
// server's clock, too.
func (d *doctor) behind(ctx context.Context) error {
	began := d.Now()
	if s, err := d.Conn.JS.Stream(ctx, bus.StreamIngest); err == nil {
		d.clock("the NATS server", s.CachedInfo().TimeStamp.Format(time.RFC3339Nano), began, d.Now().Sub(began))
	}
	var now api.SeqReply
	if err := d.ask(ctx, "query.seq", nil, &now); err != nil {
		return err
	}
	s, err := d.Conn.JS.Stream(ctx, bus.StreamChanges)
	if err != nil {
		return err
	}
	m, err := s.GetLastMsgForSubject(ctx, events.Subject{Graph: d.Graph, Kind: events.KindChange, Job: "*"}.String())
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	last, err := strconv.ParseUint(m.Subject[strings.LastIndexByte(m.Subject, '.')+1:], 10, 64)
	if err != nil {
		return fmt.Errorf("the change event %q: %w", m.Subject, err)
	}
	if last > now.Seq {
		d.find("store_behind", Error, fmt.Sprintf("the committer's store is at commit %d of graph %s, and commit %d was announced", now.Seq, d.Graph, last),
			"it is not the store that took them: another data directory, or one that was put back", "start the committer on its own --data, or factmill restore the last backup; then ingest again what came later (docs/operations/backup.md)")
	}
	return nil
}

// clock compares a time that was told between began and took later.
func (d *doctor) clock(whose, told string, began time.Time, took time.Duration) {
	at, err := time.Parse(time.RFC3339Nano, told)
	if err != nil {
		return
	}
	by := at.Sub(began)
	if by < -skew || by > took+skew {
		d.find("clock_skew", Warning, fmt.Sprintf("the clock of %s is %s off this one", whose, by.Round(time.Second)), "versions of a document are ordered by time, and leases run by it",
			"timedatectl set-ntp true")
	}
}

func (d *doctor) deadLetters(ctx context.Context) error {
	s, err := d.Conn.JS.Stream(ctx, bus.StreamDead)
	if err != nil {
		return err
	}
	if n := s.CachedInfo().State.Msgs; n > 0 {
		d.find("dead_letters", Error, count(int(n), "message is parked", "messages are parked")+" as dead letters", "their documents failed, and nobody tries again",
			d.factmill("dead-letters list"))
	}
	return nil
}

// letters asks the committer, who shows people the graph's alone.
func (d *doctor) letters(ctx context.Context) error {
	var r api.DeadListReply
	if err := d.ask(ctx, "dead-letters.list", api.DeadList{DeadQuery: api.DeadQuery{Kind: api.DeadKind}, Limit: lettersLimit}, &r); err != nil {
		return err
	}
	if n := len(r.Letters); n > 0 {
		more := ""
		if r.Next != "" {
			more = " at least"
		}
		d.find("dead_letters", Error, count(n, "message", "messages")+more+" of graph "+d.Graph+" parked as dead letters", "their documents failed, and nobody tries again",
			d.factmill("dead-letters list"))
	}
	return nil
}

// lettersLimit is how many of them are counted.
const lettersLimit = 50

// review looks how long things wait for a person.
func (d *doctor) review(ctx context.Context) error {
	if d.skipped["committer"] {
		return errNoCommitter
	}
	if d.skipped["reviewer"] {
		return errors.New("no reviewer answers")
	}
	var r api.ReviewStatsReply
	if err := d.Conn.Consult(ctx, events.Root+"."+d.Graph+".review.stats", nil, &r); err != nil {
		return err
	}
	if at, err := time.Parse(time.RFC3339Nano, r.Oldest); err == nil && d.Now().Sub(at) > d.Old {
		d.find("review_old", Warning, fmt.Sprintf("%s, the oldest for %s", count(r.ByState[api.StatePending], "candidate waits", "candidates wait"), ago(d.Now().Sub(at))),
			"what nobody decides never becomes a fact", d.factmill("review next"))
	}
	return nil
}

// vectors looks whether the index and the copy in Milvus follow.
func (d *doctor) vectors(ctx context.Context) error {
	if d.skipped["committer"] {
		return errNoCommitter
	}
	var at api.SeqReply
	if err := d.ask(ctx, "query.seq", nil, &at); err != nil || at.Seq == 0 { // an empty graph has none
		return err
	}
	var was, now api.VectorsReply
	if err := d.ask(ctx, "vectors.status", nil, &was); err != nil {
		return d.vectorsAway(err)
	}
	behind := func(r api.VectorsReply) bool {
		return r.Behind > 0 || r.Copy != nil && (r.Copy.Behind > 0 || r.Copy.Error != "")
	}
	if !behind(was) {
		return nil
	}
	if err := d.watch(ctx); err != nil {
		return err
	}
	if err := d.ask(ctx, "vectors.status", nil, &now); err != nil {
		return d.vectorsAway(err)
	}
	if now.Behind > 0 && now.Position == was.Position {
		d.find("vectors_behind", Error, fmt.Sprintf("the vectors are %s behind and do not move", count(int(now.Behind), "commit", "commits")), "new names are compared with nothing, search misses what is new",
			"look at the log of the committer, and at the model server")
	}
	if c := now.Copy; c != nil && (c.Error != "" || c.Behind > 0 && was.Copy != nil && c.Position == was.Copy.Position) {
		d.find("milvus_behind", Error, strings.TrimSuffix(fmt.Sprintf("the copy in Milvus is %s behind and does not move: %s", count(int(c.Behind), "commit", "commits"), c.Error), ": "),
			"searches over Milvus miss what is new", "start Milvus at "+cmp.Or(d.Config.Get("milvus.address"), "milvus.address"))
	}
	return nil
}

// vectorsAway makes the refusal of an embedder a finding.
func (d *doctor) vectorsAway(err error) error {
	var e *api.Error
	if !errors.As(err, &e) {
		return err
	}
	switch {
	case e.Code == "embedder_mismatch":
		d.find("embedder_differs", Error, e.Message, "no new name gets a vector", d.factmill("reembed"))
	case e.Code == "no_vectors":
		d.find("embedder_away", Error, e.Message, "no new name gets a vector", mendOf("committer", e.Message))
	default:
		return err
	}
	return nil
}

// model asks the model server, from here, for the models that the graph's settings name.
func (d *doctor) model(ctx context.Context) error {
	var set api.SettingsReply
	if err := d.ask(ctx, "settings.get", nil, &set); err != nil {
		return err
	}
	need := map[string]string{}
	if mode := set.Settings["extractor.mode"]; mode != "" && mode != "rules" {
		need[set.Settings["ollama.model"]] = "extractor.mode is " + mode
	}
	if set.Settings["embedder"] == "ollama" {
		need[set.Settings["ollama.embed_model"]] = "embedder is ollama"
	}
	if len(need) == 0 {
		return nil
	}
	c, err := llm.NewClient(d.Config.Get("ollama.url"), healthLimit)
	if err != nil {
		return err
	}
	defer c.Close()
	for name, why := range need {
		ctx, cancel := context.WithTimeout(ctx, healthLimit)
		_, err := c.Digest(ctx, name, "")
		cancel()
		if err == nil {
			continue
		}
		d.find("model_away", Error, err.Error(), why+": documents wait until it answers", mendOf("extractor", err.Error()))
	}
	return nil
}
