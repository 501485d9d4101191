package model

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/llm"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
)

// Name of the mode, and of the extractor of its items.
const Name = "llm"

// LLM is the mode that asks a model about every chunk.
type LLM struct {
	asker  *Asker
	set    settings.Extractor
	fp     string
	prompt *Prompt
}

// New makes the mode for a schema. fp is the extraction fingerprint, under which replies are kept.
func New(a *Asker, s *schema.Schema, set settings.Extractor, fp string) (*LLM, error) {
	p, err := NewPrompt(s)
	if err != nil {
		return nil, err
	}
	return &LLM{asker: a, set: set, fp: fp, prompt: p}, nil
}

// Name implements extract.Extractor.
func (m *LLM) Name() string { return Name }

// Open implements extract.Extractor: all chunks are asked about from here on.
func (m *LLM) Open(ctx context.Context, doc extract.Document) (extract.Reader, error) {
	if err := m.Ready(ctx); err != nil {
		return nil, err
	}
	all := make([]int, len(doc.Chunks))
	for i := range all {
		all[i] = i
	}
	return &reader{Batch: m.Start(ctx, doc, all), n: len(all)}, nil
}

// Ready fails when the server is away or has another model than the job names.
func (m *LLM) Ready(ctx context.Context) error {
	want := m.set.ModelDigest
	if want == "" {
		return nil
	}
	have, err := m.asker.Client.Digest(ctx, m.set.Model, want)
	var away *llm.AwayError
	switch {
	case ctx.Err() != nil:
		return &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
	case errors.As(err, &away):
		return fault.Down(llm.CodeAway, err)
	case err != nil:
		return fault.Retry(llm.CodeError, 0, err)
	case have != want:
		return fault.CannotServe("the job names %s with the digest %.12s, the model server has %.12s: give the server that model back, or cancel the job, put ollama.model_digest and run it again", m.set.Model, want, have)
	}
	return nil
}

// Batch are chunks of a document that are being asked about, side by side.
type Batch struct {
	results map[int]*result
	slots   *llm.Slots
	stop    context.CancelFunc
	wg      sync.WaitGroup
	failed  atomic.Pointer[error] // of the dependency
}

type result struct {
	begun sync.Once // counted off the backlog
	done  chan struct{}
	items extract.Items
	use   llm.Usage
	err   error
}

// Start begins to ask about chunks. Close must follow.
func (m *LLM) Start(ctx context.Context, doc extract.Document, chunks []int) *Batch {
	b := &Batch{results: make(map[int]*result, len(chunks))}
	for _, i := range chunks {
		b.results[i] = &result{done: make(chan struct{})}
	}
	ctx, b.stop = context.WithCancel(ctx)
	b.slots = m.asker.Slots
	b.slots.Expect(len(chunks))
	var next atomic.Int64
	// Twice the slots, so that one is never free while a reply is being kept.
	for range min(2*m.asker.Slots.N(), len(chunks)) {
		b.wg.Go(func() { // ends with the chunks, or with Close
			for {
				n := int(next.Add(1)) - 1
				if n >= len(chunks) {
					return
				}
				b.ask(ctx, m, doc, chunks[n])
			}
		})
	}
	return b
}

func (b *Batch) ask(ctx context.Context, m *LLM, doc extract.Document, i int) {
	r := b.results[i]
	defer close(r.done)
	begun := func() { r.begun.Do(func() { b.slots.Expect(-1) }) }
	defer begun()
	if err := b.failed.Load(); err != nil {
		r.err = *err
		return
	}
	q := Question{
		Graph: doc.Graph, Job: doc.Job, FP: m.fp, Model: m.set.Model, Prompt: m.prompt, MaxTokens: m.set.MaxTokens,
		Shown: Shown(doc.Chunks[i], doc.Chunk(i), m.set.Heading), Begun: begun,
	}
	r.items, r.use, r.err = m.asker.Ask(ctx, q)
	var chunk *extract.Failure
	if r.err != nil && !errors.As(r.err, &chunk) {
		err := r.err
		b.failed.CompareAndSwap(nil, &err)
	}
}

// Result waits for what is known of a chunk that was asked about.
func (b *Batch) Result(ctx context.Context, i int) (extract.Items, llm.Usage, error) {
	r := b.results[i]
	select {
	case <-r.done:
		return r.items, r.use, r.err
	case <-ctx.Done():
		return extract.Items{}, llm.Usage{}, &fault.Error{Class: fault.Interrupted, Code: "interrupted", Err: ctx.Err()}
	}
}

// Close ends what is still being asked, and waits for it.
func (b *Batch) Close() {
	b.stop()
	b.wg.Wait()
	for _, r := range b.results { // those that nobody came to
		r.begun.Do(func() { b.slots.Expect(-1) })
	}
}

// Count puts what a chunk cost into the counts of its document.
func Count(s *events.EscalationStats, use llm.Usage, err error) {
	if use.Requests > 0 {
		s.Asked++
	}
	s.Requests += use.Requests
	s.PromptTokens += use.PromptTokens
	s.CompletionTokens += use.CompletionTok
	s.Millis += use.Took.Milliseconds()
	if use.Hit {
		s.CacheHits++
	}
	if use.Repaired && err == nil {
		s.Repaired++
	}
	if err != nil {
		s.Failed++
	}
}

// reader is a document in the mode llm.
type reader struct {
	*Batch
	n     int
	stats events.EscalationStats
}

// Read implements extract.Reader.
func (r *reader) Read(ctx context.Context, i int) (extract.Items, error) {
	items, use, err := r.Result(ctx, i)
	Count(&r.stats, use, err)
	return items, err
}

// Counts implements extract.Counter.
func (r *reader) Counts() events.EscalationStats {
	s := r.stats
	s.Mode, s.Total, s.Eligible, s.Escalated = Name, r.n, r.n, r.n
	return s
}
