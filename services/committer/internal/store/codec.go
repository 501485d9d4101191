package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
)

// Documents, versions, assertions, candidates, decisions and counts are JSON: few, read as a whole, readable by people. Folds,
// supports and indexes, of which there are many, are compact: uvarints, length-prefixed strings, 8-byte floats.

type writer []byte

func (w writer) uint(v int) writer     { return binary.AppendUvarint(w, uint64(v)) }
func (w writer) u64(v uint64) writer   { return binary.AppendUvarint(w, v) }
func (w writer) id(v id) writer        { return append(w, v[:]...) }
func (w writer) str(s string) writer   { return append(w.uint(len(s)), s...) }
func (w writer) bytes(b []byte) writer { return append(w.uint(len(b)), b...) }
func (w writer) float(f float64) writer {
	return binary.LittleEndian.AppendUint64(w, math.Float64bits(f))
}

func (w writer) bool(b bool) writer {
	if b {
		return append(w, 1)
	}
	return append(w, 0)
}

// reader reads what a writer wrote; the first fault sets bad and everything after it is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) u64() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) uint() int {
	v := r.u64()
	if v > math.MaxInt32*64 {
		r.bad, r.b = true, nil
		return 0
	}
	return int(v)
}

// count reads a number of things that take at least one byte each.
func (r *reader) count() int {
	n := r.uint()
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return 0
	}
	return n
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) bytes() []byte { return r.take(r.count()) }
func (r *reader) str() string   { return string(r.bytes()) }

func (r *reader) id() (v id) {
	copy(v[:], r.take(idLen))
	return v
}

func (r *reader) float() float64 {
	b := r.take(8)
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func (r *reader) bool() bool {
	b := r.take(1)
	if b == nil {
		return false
	}
	if b[0] > 1 {
		r.bad = true
	}
	return b[0] == 1
}

func (r *reader) err(what string) error {
	if r.bad || len(r.b) > 0 {
		return fmt.Errorf("%w: %s", ErrCorrupt, what)
	}
	return nil
}

func encodeJSON(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return b, nil
}

func decodeJSON(b []byte, into any) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%w: %T: %w", ErrCorrupt, into, err)
	}
	return nil
}

// decodeStated keeps whole numbers whole.
func decodeStated(b []byte) (Stated, error) {
	a, ok := readStatedRow(b)
	if !ok {
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		if err := d.Decode(&a); err != nil {
			return a, fmt.Errorf("%w: assertions: %w", ErrCorrupt, err)
		}
		if _, err := d.Token(); err != io.EOF {
			return a, fmt.Errorf("%w: assertions: something after their end", ErrCorrupt)
		}
	}
	for i := range a.Kept {
		a.Kept[i].Whole()
	}
	for i := range a.Chunks {
		c := &a.Chunks[i]
		for j := range c.Properties {
			c.Properties[j].Value = fromNumber(c.Properties[j].Value)
		}
		for j := range c.Relations {
			for k, v := range c.Relations[j].Properties {
				c.Relations[j].Properties[k] = fromNumber(v)
			}
		}
	}
	return a, nil
}

func decodeStale(b []byte, x *StaleItem) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(x); err != nil {
		return fmt.Errorf("%w: stale item: %w", ErrCorrupt, err)
	}
	x.Kept.Whole()
	return nil
}

// Whole makes whole numbers of those that JSON made fractions of.
func (k *Kept) Whole() {
	if k.Value != nil {
		k.Value = fromNumber(k.Value)
	}
	for i := range k.Spans {
		for name, v := range k.Spans[i].Properties {
			k.Spans[i].Properties[name] = fromNumber(v)
		}
	}
}

func fromNumber(v any) any {
	n, ok := v.(json.Number)
	if !ok {
		return canonicalValue(v)
	}
	if i, err := n.Int64(); err == nil {
		return i
	}
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	return canonicalValue(f)
}

func (w writer) value(v any) (writer, error) {
	switch x := canonicalValue(v).(type) {
	case string:
		return append(w, 's').str(x), nil
	case bool:
		return append(w, 'b').bool(x), nil
	case int64:
		return append(w, 'i').u64(uint64(x<<1) ^ uint64(x>>63)), nil
	case float64:
		return append(w, 'f').float(x), nil
	default:
		return w, fmt.Errorf("%w: a value is a %T", ErrBadChange, v)
	}
}

func (r *reader) value() any {
	t := r.take(1)
	if t == nil {
		return nil
	}
	switch t[0] {
	case 's':
		return r.str()
	case 'b':
		return r.bool()
	case 'i':
		u := r.u64()
		return int64(u>>1) ^ -int64(u&1)
	case 'f':
		return r.float()
	}
	r.bad = true
	return nil
}

func encodeEntity(f *EntityFold) []byte {
	w := make(writer, 0, 64+len(f.Label)+2*len(f.Key)).str(f.Label).str(f.Key).uint(f.Documents).uint(f.Mentions).uint(len(f.Names))
	for _, n := range f.Names {
		w = w.str(n.Name).uint(n.Count).bool(n.Full)
	}
	return w
}

func decodeEntity(b []byte, f *EntityFold) error {
	r := reader{b: b}
	f.Label, f.Key, f.Documents, f.Mentions = r.str(), r.str(), r.uint(), r.uint()
	n := r.count()
	f.Names = make([]NameCount, 0, n)
	for range n {
		f.Names = append(f.Names, NameCount{Name: r.str(), Count: r.uint(), Full: r.bool()})
	}
	return r.err("entity")
}

func encodeRelation(f *RelationFold, src, dst id) []byte {
	return make(writer, 0, 48+len(f.Type)).str(f.Type).id(src).id(dst).uint(f.Documents).uint(f.Evidence)
}

func decodeRelation(b []byte, f *RelationFold) error {
	r := reader{b: b}
	f.Type, f.Source, f.Target, f.Documents, f.Evidence = r.str(), r.id().String(), r.id().String(), r.uint(), r.uint()
	return r.err("relation")
}

func encodePropFold(f *PropertyFold) ([]byte, error) {
	w, err := make(writer, 0, 64).value(f.Value)
	if err != nil {
		return nil, err
	}
	return w.uint(f.Documents).float(f.Best).uint(f.BestDocs).str(f.Newest).uint(f.NewestDocs), nil
}

func decodePropFold(b []byte, f *PropertyFold) error {
	r := reader{b: b}
	f.Value, f.Documents, f.Best, f.BestDocs, f.Newest, f.NewestDocs = r.value(), r.uint(), r.float(), r.uint(), r.str(), r.uint()
	return r.err("property")
}

func encodeMentions(s *MentionSupport) []byte {
	w := make(writer, 0, 16+48*len(s.Spans)).uint(s.Version).uint(len(s.Spans))
	for _, m := range s.Spans {
		w = w.uint(m.Chunk).uint(m.Start).uint(m.End).float(m.Confidence).str(m.Name).str(m.Extractor).str(m.Rule)
	}
	return w
}

func decodeMentions(b []byte, s *MentionSupport) error {
	r := reader{b: b}
	s.Version = r.uint()
	n := r.count()
	s.Spans = make([]MentionSpan, 0, n)
	for range n {
		s.Spans = append(s.Spans, MentionSpan{Chunk: r.uint(), Start: r.uint(), End: r.uint(), Confidence: r.float(),
			Name: r.str(), Extractor: r.str(), Rule: r.str()})
	}
	return r.err("mentions")
}

func encodeEvidence(s *EvidenceSupport) ([]byte, error) {
	w := make(writer, 0, 24+48*len(s.Spans)).uint(s.Version).str(s.Date).uint(len(s.Spans))
	for _, e := range s.Spans {
		w = w.uint(e.Chunk).uint(e.Start).uint(e.End).float(e.Confidence).str(e.Assertion).str(e.Extractor).str(e.Rule)
		var props []byte
		if len(e.Properties) > 0 {
			var err error
			if props, err = encodeJSON(e.Properties); err != nil {
				return nil, err
			}
		}
		w = w.bytes(props)
	}
	return w, nil
}

func decodeEvidence(b []byte, s *EvidenceSupport) error {
	r := reader{b: b}
	s.Version, s.Date = r.uint(), r.str()
	n := r.count()
	s.Spans = make([]EvidenceSpan, 0, n)
	for range n {
		e := EvidenceSpan{Chunk: r.uint(), Start: r.uint(), End: r.uint(), Confidence: r.float(),
			Assertion: r.str(), Extractor: r.str(), Rule: r.str()}
		if props := r.bytes(); len(props) > 0 {
			d := json.NewDecoder(bytes.NewReader(props))
			d.UseNumber()
			if err := d.Decode(&e.Properties); err != nil {
				return fmt.Errorf("%w: evidence: %w", ErrCorrupt, err)
			}
			for k, v := range e.Properties {
				e.Properties[k] = fromNumber(v)
			}
		}
		s.Spans = append(s.Spans, e)
	}
	return r.err("evidence")
}

func encodeChunkRef(doc id, version, index int) []byte {
	return make(writer, 0, 24).id(doc).uint(version).uint(index)
}

// numbered is the row of a version's chunk numbers: how many terms each chunk has.
type numbered struct {
	doc     id
	version int
	terms   []int
}

func encodeNumbered(n numbered) []byte {
	w := make(writer, 0, 24+2*len(n.terms)).id(n.doc).uint(n.version).uint(len(n.terms))
	for _, t := range n.terms {
		w = w.uint(t)
	}
	return w
}

func decodeNumbered(b []byte) (n numbered, err error) {
	r := reader{b: b}
	n.doc, n.version = r.id(), r.uint()
	for range r.count() {
		n.terms = append(n.terms, r.uint())
	}
	return n, r.err("chunk numbers")
}
