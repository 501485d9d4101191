// Package extract is the seam between the modes of the extractor and what they share: a mode is an Extractor that says raw
// items of a chunk; the one validator (package validate) decides what becomes of each.
package extract

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/graph"
)

// Extractor is one mode.
type Extractor interface {
	// Name goes into every item: "rules", "llm".
	Name() string
	// Open prepares one document. A Reader belongs to one goroutine; Close gives back what it holds.
	Open(ctx context.Context, doc Document) (Reader, error)
}

// Reader says the items of one document's chunks.
type Reader interface {
	// Read returns the items of chunk i, with offsets from the chunk's start. The items are valid until the next call. A *Failure
	// fails the chunk, not the document; any other error is of the document.
	Read(ctx context.Context, i int) (Items, error)
	Close()
}

// Counter is a Reader that asks a model.
type Counter interface {
	// Counts is what was asked, complete when every chunk was read.
	Counts() events.EscalationStats
}

// Failure is a chunk that could not be read as it should be.
type Failure struct {
	// Stage in summaries: "extractor", or "escalation" where the chunk was read all the same, without what a model would have added.
	Stage string
	Code  string
	// Reply is the beginning of what a model answered, and Attempt how many times it was asked.
	Reply   string
	Attempt int
	// Partial: the items that came with the failure count.
	Partial bool
	// Tolerated: the job goes on whatever its policy.
	Tolerated bool
	Err       error
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// Document is what a mode reads.
type Document struct {
	// Graph and Job are whose replies and tokens a model's are.
	Graph, Job string

	Title  string
	Text   string
	Chunks []graph.Chunk
}

// Chunk returns the text of chunk i, which is empty where its bounds are no slice of the text.
func (d Document) Chunk(i int) string {
	c := d.Chunks[i]
	if c.Start < 0 || c.End < c.Start || c.End > len(d.Text) {
		return ""
	}
	return d.Text[c.Start:c.End]
}

// Items is what a mode says of one chunk, unchecked.
type Items struct {
	Entities  []Entity
	Relations []Relation
	// Incomplete says that the chunk was not read whole.
	Incomplete bool
}

// Clone returns a copy that stays valid.
func (it Items) Clone() Items {
	it.Entities = slices.Clone(it.Entities)
	for i := range it.Entities {
		it.Entities[i].Properties = slices.Clone(it.Entities[i].Properties)
	}
	it.Relations = slices.Clone(it.Relations)
	for i := range it.Relations {
		it.Relations[i].Properties = slices.Clone(it.Relations[i].Properties)
	}
	return it
}

// Entity is a raw entity mention.
type Entity struct {
	// By is the extractor that said it; empty: the mode.
	By   string
	Type string
	Name string
	// Of is the full name that Name is short for, or empty.
	Of string
	// Start and End in the chunk where our own code found them; Start is -1 when unknown.
	Start, End int
	Confidence Score
	// Quote is what the mode gives as evidence, or empty.
	Quote      string
	Rule       string
	Properties []Property
}

// Property is a raw property value. Start is -1 when unknown.
type Property struct {
	Name       string
	Value      any
	Start, End int
	Confidence Score
}

// Relation is a raw relation. An end is the place of an entity in Items.Entities, or -1 and a name.
type Relation struct {
	By                     string // as an Entity's
	Type                   string
	Source, Target         int
	SourceName, TargetName string
	// Start and End of the quote in the chunk where our own code found it; Start is -1 when unknown.
	Start, End int
	Quote      string
	Confidence Score
	// Assertion is explicit, inferred or opinion; empty is explicit.
	Assertion  string
	Rule       string
	Properties []Property
}

// Score is a confidence as it was given. The zero value is none: the item is unscored.
type Score struct {
	value float64
	state scoreState
}

type scoreState uint8

const (
	scoreNone scoreState = iota
	scoreGood
	scoreBad
)

// Scored is a confidence; one that is no number from 0 to 1 is bad.
func Scored(v float64) Score {
	if math.IsNaN(v) || v < 0 || v > 1 {
		return Score{state: scoreBad}
	}
	return Score{value: v, state: scoreGood}
}

// ScoreOf reads a confidence that was given as a decoded JSON value. A number or numeric text from 0 to 1 is good; null, NaN,
// a word, 90 and anything else is bad. A confidence that was not given at all is the zero Score.
func ScoreOf(raw any) Score {
	switch v := raw.(type) {
	case float64:
		return Scored(v)
	case int:
		return Scored(float64(v))
	case json.Number:
		return scoreText(v.String())
	case string:
		return scoreText(strings.TrimSpace(v))
	}
	return Score{state: scoreBad}
}

func scoreText(s string) Score {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return Score{state: scoreBad}
	}
	return Scored(v)
}

// Value returns the confidence. ok is false for a bad one. An unscored item has unscored as its confidence.
func (s Score) Value(unscored float64) (v float64, ok bool) {
	switch s.state {
	case scoreGood:
		return s.value, true
	case scoreBad:
		return 0, false
	}
	return unscored, true
}
