// Package vectors keeps the vectors of entity names and chunks: the graph-native index (Index), which lies in the store's raw rows and
// answers exactly, the follower that keeps an index or a copy of it up with the commits (Follower), and what a copy
// elsewhere must do (Copy).
//
// Vectors are float32, of unit length or all zeros, as an embed.Embedder gives them; a score is embed.Cosine of two of them. Ids are
// UUIDs in their text form.
package vectors

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
)

// Kind is what a vector is of.
type Kind byte

// The kinds. Chunks have no label.
const (
	Entity Kind = 'e'
	Chunk  Kind = 'c'
)

func (k Kind) String() string {
	switch k {
	case Entity:
		return "entity"
	case Chunk:
		return "chunk"
	}
	return fmt.Sprintf("kind %d", byte(k))
}

// Ref names one vector.
type Ref struct {
	Kind Kind
	ID   string
}

func (r Ref) String() string { return r.Kind.String() + " " + r.ID }

// Item is a vector with what it is of.
type Item struct {
	Ref
	Label  string // of an entity; empty for a chunk
	Text   string // the name, or the chunk's text: what was embedded
	Vector []float32
}

// Batch is what an index or a copy takes at once: first Upserts, then Deletes, then the position.
type Batch struct {
	Upserts []Item // by id: what is there already is replaced
	Deletes []Ref  // of what is not there are no error
	// Position is the commit sequence that the batch leads to; 0 leaves it as it is.
	Position uint64
}

// Hit is a found vector. Score is its cosine to the query, -1…1.
type Hit struct {
	ID    string
	Score float64
}

// Errors, to be asked for with errors.Is.
var (
	// ErrEmbedder: the stored vectors are another embedder's. *EmbedderError says which; Reset mends it.
	ErrEmbedder = errors.New("vectors of another embedder")
	// ErrBadItem: an item or query that no index can take. Nothing of its batch is written.
	ErrBadItem = errors.New("bad vector")
	// ErrCorrupt: a stored row was altered. Reset mends it.
	ErrCorrupt = errors.New("corrupt vector row")
	// ErrFull: the index holds Options.MaxVectors. Nothing of the batch is written.
	ErrFull = errors.New("vector index is full")
)

// EmbedderError names both embedders. It is an ErrEmbedder.
type EmbedderError struct {
	Graph           string
	Stored, Given   string // names
	StoredN, GivenN int    // numbers a vector
}

func (e *EmbedderError) Error() string {
	return fmt.Sprintf("graph %s has vectors of %s with %d numbers, the embedder is %s with %d: `factmill reembed` makes them anew",
		e.Graph, e.Stored, e.StoredN, e.Given, e.GivenN)
}

// Is says that e is an ErrEmbedder.
func (e *EmbedderError) Is(target error) bool { return target == ErrEmbedder }

// uuid is an id in memory; it sorts as its text does.
type uuid [16]byte

func parseID(s string) (u uuid, err error) {
	var packed [32]byte
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return u, fmt.Errorf("%w: %.60q is no id", ErrBadItem, s)
	}
	at := 0
	for i := 0; i < len(s); i++ {
		if c := s[i]; c != '-' {
			if at == len(packed) || c >= 'A' && c <= 'F' {
				return u, fmt.Errorf("%w: %.60q is no id", ErrBadItem, s)
			}
			packed[at] = c
			at++
		}
	}
	if at != len(packed) {
		return u, fmt.Errorf("%w: %.60q is no id", ErrBadItem, s)
	}
	if _, err := hex.Decode(u[:], packed[:]); err != nil {
		return u, fmt.Errorf("%w: %.60q is no id", ErrBadItem, s)
	}
	return u, nil
}

func (u uuid) String() string {
	var b [36]byte
	hex.Encode(b[0:8], u[0:4])
	hex.Encode(b[9:13], u[4:6])
	hex.Encode(b[14:18], u[6:8])
	hex.Encode(b[19:23], u[8:10])
	hex.Encode(b[24:36], u[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// ref is a Ref in memory.
type ref struct {
	kind Kind
	id   uuid
}

func (r Ref) parse() (ref, error) {
	if r.Kind != Entity && r.Kind != Chunk {
		return ref{}, fmt.Errorf("%w: %s", ErrBadItem, r.Kind)
	}
	id, err := parseID(r.ID)
	return ref{r.Kind, id}, err
}

// maxLabel is the most bytes of a label.
const maxLabel = 1 << 10

// CheckItem says whether it can be stored: a known kind, a UUID, a label only for an entity, and a vector of size numbers, of unit length
// or all zeros. The error wraps ErrBadItem and names the item.
func CheckItem(it Item, size int) error {
	if _, err := it.parse(); err != nil {
		return err
	}
	switch {
	case it.Kind == Entity && it.Label == "", it.Kind == Chunk && it.Label != "", len(it.Label) > maxLabel:
		return fmt.Errorf("%w: %s has the label %.60q", ErrBadItem, it.Ref, it.Label)
	}
	if err := checkVector(it.Vector, size); err != nil {
		return fmt.Errorf("%s: %w", it.Ref, err)
	}
	return nil
}

// checkVector is also for queries.
func checkVector(v []float32, size int) error {
	if len(v) != size {
		return fmt.Errorf("%w: %d numbers instead of %d", ErrBadItem, len(v), size)
	}
	var squares float64
	for _, x := range v {
		squares += float64(x) * float64(x)
	}
	if squares != 0 && !(math.Abs(squares-1) < 1e-3) { // no number is not near 1 either
		return fmt.Errorf("%w: length %g instead of 1", ErrBadItem, math.Sqrt(squares))
	}
	return nil
}
