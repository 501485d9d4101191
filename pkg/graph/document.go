// Package graph is the vocabulary: documents, chunks, assertions, entities, relations, candidates, and the pure folds that
// turn assertions into facts. Pure data: no store, no broker.
//
// Offsets are bytes of the stored, normalised UTF-8 text of a document, end-exclusive.
package graph

import (
	"encoding/json"
	"fmt"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/jsonx"
)

// Scope is the scope labels of a document. In JSON one label is a string, several are a list, none is "".
type Scope []string

// MarshalJSON writes "", "label" or ["a","b"].
func (s Scope) MarshalJSON() ([]byte, error) {
	switch len(s) {
	case 0:
		return []byte(`""`), nil
	case 1:
		return json.Marshal(s[0])
	default:
		return json.Marshal([]string(s))
	}
}

// UnmarshalJSON reads a string, a list of strings, or null.
func (s *Scope) UnmarshalJSON(b []byte) error {
	var one string
	if err := json.Unmarshal(b, &one); err == nil {
		*s = nil
		if one != "" {
			*s = Scope{one}
		}
		return nil
	}
	var many []string
	if err := json.Unmarshal(b, &many); err != nil {
		return fmt.Errorf("scope is neither a label nor a list of labels")
	}
	*s = many
	return nil
}

// AppendScope writes v as MarshalJSON does.
func AppendScope(w *jsonx.Writer, v *Scope) {
	switch s := *v; len(s) {
	case 0:
		w.String("")
	case 1:
		w.String(s[0])
	default:
		w.Strings(s)
	}
}

// ReadScope reads v as UnmarshalJSON does.
func ReadScope(r *jsonx.Reader, v *Scope) {
	if r.List() {
		*v = r.Strings()
	} else if one := r.String(); one != "" {
		*v = Scope{one}
	}
}

// Meta is what is known of one document version besides its text.
type Meta struct {
	Key             string         `json:"key"`
	ID              string         `json:"id"`
	Title           string         `json:"title,omitempty"`
	Format          string         `json:"format,omitempty"`
	PublishedAt     string         `json:"published_at,omitempty"`
	ContentDate     string         `json:"content_date,omitempty"`
	SourceUpdatedAt string         `json:"source_updated_at,omitempty"`
	Metadata        map[string]any `json:"metadata,omitempty"`
	Scope           Scope          `json:"scope,omitempty"`
}

// MetaHash is equal for two versions whose dates, title, metadata and scope are equal (decision metadata_only).
func (m Meta) MetaHash() string {
	md := m.Metadata
	if len(md) == 0 {
		md = nil
	}
	sc := []string(m.Scope)
	if len(sc) == 0 {
		sc = nil
	}
	h, err := fingerprint.H16(map[string]any{
		"title": m.Title, "published_at": m.PublishedAt, "content_date": m.ContentDate, "metadata": md, "scope": sc,
	})
	if err != nil { // metadata came out of JSON, so it goes back into it
		return ""
	}
	return h
}

// Decision is what happens to one document of a job.
type Decision string

// The decisions of the table in spec 3, and the two ends that need no work.
const (
	NewVersion   Decision = "new_version"
	InPlace      Decision = "in_place"
	MetadataOnly Decision = "metadata_only"
	NoOp         Decision = "no_op"
	Delete       Decision = "delete"
)

// Stored is what the graph knows of a document's open version: the right side of the decision table. The zero value is an
// unknown or deleted document.
type Stored struct {
	Open         bool   `json:"open"`
	Revision     uint64 `json:"revision"`
	ContentHash  string `json:"content_hash,omitempty"`
	SchemaFP     string `json:"schema_fingerprint,omitempty"`
	ChunkerFP    string `json:"chunker_fingerprint,omitempty"`
	ExtractionFP string `json:"extraction_fingerprint,omitempty"` // empty: no stamp, the extraction was not complete
	MetaHash     string `json:"meta_hash,omitempty"`
}

// Wanted is the left side of the decision table: what a job would store.
type Wanted struct {
	ContentHash, SchemaFP, ChunkerFP, ExtractionFP, MetaHash string
	Force                                                    bool
}

// Decide is the decision table of spec 3, first match.
func Decide(s Stored, w Wanted) Decision {
	switch {
	case !s.Open || s.ContentHash != w.ContentHash || s.ChunkerFP != w.ChunkerFP || s.SchemaFP != w.SchemaFP:
		return NewVersion
	case w.Force || s.ExtractionFP != w.ExtractionFP:
		return InPlace
	case s.MetaHash != w.MetaHash:
		return MetadataOnly
	default:
		return NoOp
	}
}

// Chunk is a slice of one document version. Its index is its place in the document's list.
type Chunk struct {
	Start int `json:"s"`
	End   int `json:"e"`
	// Prefix is a repeated table header (and caption) that stands before the text for a reader or model, outside the offsets.
	Prefix string `json:"prefix,omitempty"`
	// Heading is the heading path of the chunk's first section.
	Heading []string `json:"heading,omitempty"`
	// Content is "text", "table", "code", "list" or "heading".
	Content string `json:"content"`
	// Tokens of prefix and text together.
	Tokens int `json:"tokens"`
}

// Order ranks the versions of one key: by source_updated_at, else the event's time; then the event's sequence.
type Order struct {
	// Time in nanoseconds since 1970 UTC.
	Time int64 `json:"time"`
	// Seq of the document event in its stream.
	Seq uint64 `json:"seq"`
}

// Before says whether o is older than p.
func (o Order) Before(p Order) bool {
	if o.Time != p.Time {
		return o.Time < p.Time
	}
	return o.Seq < p.Seq
}
