// Package hybrid is the mode that reads with rules first and asks a model about what they leave unclear, within a budget.
package hybrid

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/model"
	"github.com/factmill/factmill/services/extractor/internal/validate"
)

// Name of the mode.
const Name = "hybrid"

// manyWords is from where a chunk in which the rules kept nothing is worth a question.
const manyWords = 8

// Hybrid implements extract.Extractor.
type Hybrid struct {
	rules  extract.Extractor
	model  *model.LLM
	schema *schema.Schema
	set    settings.Extractor
}

// New puts rules and a model together.
func New(r extract.Extractor, m *model.LLM, s *schema.Schema, set settings.Extractor) *Hybrid {
	return &Hybrid{rules: r, model: m, schema: s, set: set}
}

// Name implements extract.Extractor.
func (h *Hybrid) Name() string { return Name }

// reader is one document.
type reader struct {
	h     *Hybrid
	items []extract.Items // of the rules
	asked map[int]bool
	batch *model.Batch
	away  error // the model server is away, and the mode goes on without
	stats events.EscalationStats
}

// Open implements extract.Extractor: the rules read every chunk, and what is asked about is asked from here on.
func (h *Hybrid) Open(ctx context.Context, doc extract.Document) (extract.Reader, error) {
	r := &reader{h: h, asked: map[int]bool{}, stats: events.EscalationStats{Mode: Name, Total: len(doc.Chunks)}}
	if err := r.rules(ctx, doc); err != nil {
		return nil, err
	}
	var chunks []int
	v := validate.New(h.schema, h.set, validate.Options{Extractor: h.rules.Name(), NoCandidates: true})
	for i := range doc.Chunks {
		text := doc.Chunk(i)
		if !h.eligible(text, v.Chunk(text, 0, r.items[i])) {
			continue
		}
		r.stats.Eligible++
		if Goes(text, h.set.EscalationBudget) {
			chunks = append(chunks, i)
		}
	}
	if len(chunks) > 0 {
		if err := h.model.Ready(ctx); err != nil {
			if r.away = h.without(err); r.away == nil {
				return nil, err
			}
		}
	}
	for _, i := range chunks {
		r.asked[i] = true
	}
	r.stats.Escalated, r.stats.Left = len(chunks), r.stats.Eligible-len(chunks)
	if r.away == nil {
		r.batch = h.model.Start(ctx, doc, chunks)
	}
	return r, nil
}

func (r *reader) rules(ctx context.Context, doc extract.Document) error {
	read, err := r.h.rules.Open(ctx, doc)
	if err != nil {
		return fmt.Errorf("read with rules: %w", err)
	}
	defer read.Close()
	for i := range doc.Chunks {
		items, err := read.Read(ctx, i)
		if err != nil {
			return fmt.Errorf("read chunk %d with rules: %w", i, err)
		}
		items = items.Clone()
		for j := range items.Entities {
			items.Entities[j].By = r.h.rules.Name()
		}
		for j := range items.Relations {
			items.Relations[j].By = r.h.rules.Name()
		}
		r.items = append(r.items, items)
	}
	return nil
}

// eligible says whether what the rules kept of a chunk leaves something to ask.
func (h *Hybrid) eligible(text string, kept graph.ChunkItems) bool {
	if len(kept.Entities)+len(kept.Relations) == 0 {
		return len(strings.Fields(text)) >= manyWords
	}
	for i := range kept.Entities {
		e := &kept.Entities[i]
		if e.Confidence < h.set.EscalationThreshold || len(h.schema.Properties(e.Type)) > 0 {
			return true
		}
	}
	for i := range kept.Relations {
		r := &kept.Relations[i]
		if rel, ok := h.schema.Relation(r.Type); r.Confidence < h.set.EscalationThreshold || ok && len(rel.Properties) > 0 {
			return true
		}
	}
	return false
}

// Goes says whether an eligible chunk is asked about: a hash of its text, as a fraction, lies below the budget. The choice depends on
// the chunk alone.
func Goes(text string, budget float64) bool {
	if budget >= 1 {
		return true
	}
	sum := sha256.Sum256([]byte(text))
	return float64(binary.BigEndian.Uint64(sum[:8]))/math.MaxUint64 < budget
}

// without is the error to go on with when the model server is away, nil when the mode waits for it.
func (h *Hybrid) without(err error) error {
	f := fault.Of(err)
	if f.Class != fault.Transient || !f.Pause || h.set.WithoutModel == "" {
		return nil
	}
	return &extract.Failure{
		Stage: events.StageEscalation, Code: f.Code, Partial: true, Tolerated: h.set.WithoutModel == settings.WithoutModelRules, Err: err,
	}
}

// Read implements extract.Reader.
func (r *reader) Read(ctx context.Context, i int) (extract.Items, error) {
	if !r.asked[i] {
		return r.items[i], nil
	}
	if r.away != nil {
		r.stats.Failed++
		return r.items[i], r.away
	}
	said, use, err := r.batch.Result(ctx, i)
	model.Count(&r.stats, use, err)
	if err == nil {
		return merge(r.h.schema, r.items[i], said), nil
	}
	var chunk *extract.Failure
	if errors.As(err, &chunk) {
		f := *chunk
		f.Stage, f.Partial = events.StageEscalation, true
		return r.items[i], &f
	}
	if go_on := r.h.without(err); go_on != nil {
		return r.items[i], go_on
	}
	return extract.Items{}, err
}

// Counts implements extract.Counter.
func (r *reader) Counts() events.EscalationStats { return r.stats }

// Close implements extract.Reader.
func (r *reader) Close() {
	if r.batch != nil {
		r.batch.Close()
	}
}
