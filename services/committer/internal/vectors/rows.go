package vectors

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
)

// space of the store that belongs to this package. Keys:
//
//	h          header, JSON
//	p          position of the index, 8 bytes big endian
//	m name     position of a copy, JSON
//	e id, c id vector of an entity, of a chunk
//
// A vector's row is: encoding, label (uvarint length, bytes), digest of the text, group (8 bytes, where the encoding has the bit), numbers, CRC-32C of id and all before. The numbers are float32
// little endian, or, smaller and equally exact, the features of each word, of which the vector is the sum.
const space = byte('V')

const (
	format       = 1
	encodeFloats = 0
	encodeWords  = 1
	// encodeGroup is added to the others.
	encodeGroup = 0x80
)

var (
	keyHeader   = []byte("h")
	keyPosition = []byte("p")
)

type header struct {
	Format   int    `json:"format"`
	Embedder string `json:"embedder"`
	Size     int    `json:"size"`
	// Groups is Options.Groups of whoever made the rows.
	Groups string `json:"groups,omitempty"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// row is a vector as it is stored.
type row struct {
	label  string
	digest Digest
	group  uint64            // 0: none
	words  [][]embed.Feature // set when floats is nil
	floats []float32
}

func (r ref) key() []byte { return append([]byte{byte(r.kind)}, r.id[:]...) }

func encodeRow(of ref, r row) []byte {
	b := make([]byte, 0, 64+4*len(r.floats)+64*len(r.words))
	encoding := byte(encodeWords)
	if r.floats != nil {
		encoding = encodeFloats
	}
	if r.group != 0 {
		encoding |= encodeGroup
	}
	b = append(b, encoding)
	b = binary.AppendUvarint(b, uint64(len(r.label)))
	b = append(b, r.label...)
	b = append(b, r.digest[:]...)
	if r.group != 0 {
		b = binary.LittleEndian.AppendUint64(b, r.group)
	}
	for _, x := range r.floats {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	if r.floats == nil {
		b = binary.AppendUvarint(b, uint64(len(r.words)))
		for _, w := range r.words {
			b = binary.AppendUvarint(b, uint64(len(w)))
			for _, f := range w {
				b = binary.AppendUvarint(b, uint64(f))
			}
		}
	}
	return binary.LittleEndian.AppendUint32(b, checksum(of, b))
}

func checksum(of ref, b []byte) uint32 {
	return crc32.Update(crc32.Checksum(of.key(), castagnoli), castagnoli, b)
}

// decodeRow reads a row; size is the embedder's.
func decodeRow(of ref, b []byte, size int) (r row, err error) {
	bad := func(what string) (row, error) {
		return row{}, fmt.Errorf("%w: %s %s: %s", ErrCorrupt, of.kind, of.id, what)
	}
	if len(b) < 5 || checksum(of, b[:len(b)-4]) != binary.LittleEndian.Uint32(b[len(b)-4:]) {
		return bad("checksum")
	}
	encoding, rest := b[0], b[1:len(b)-4]
	n, w := binary.Uvarint(rest)
	if w <= 0 || n > maxLabel || uint64(len(rest)-w) < n+uint64(len(r.digest)) {
		return bad("label")
	}
	r.label = string(rest[w : w+int(n)])
	rest = rest[w+int(n):]
	rest = rest[copy(r.digest[:], rest):]
	if encoding&encodeGroup != 0 {
		if len(rest) < 8 {
			return bad("group")
		}
		r.group, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	switch encoding &^ encodeGroup {
	case encodeFloats:
		if len(rest) != 4*size {
			return bad("size")
		}
		r.floats = make([]float32, size)
		for i := range r.floats {
			r.floats[i] = math.Float32frombits(binary.LittleEndian.Uint32(rest[4*i:]))
		}
	case encodeWords:
		if r.words, err = decodeWords(rest, size); err != nil {
			return bad(err.Error())
		}
	default:
		return bad("encoding")
	}
	return r, nil
}

func decodeWords(b []byte, size int) ([][]embed.Feature, error) {
	var failed error
	next := func(most uint64) int {
		v, w := binary.Uvarint(b)
		if w <= 0 || v > most {
			failed = fmt.Errorf("words")
			return 0
		}
		b = b[w:]
		return int(v)
	}
	out := make([][]embed.Feature, next(maxFeatures))
	total := 0
	for i := range out {
		w := make([]embed.Feature, next(maxFeatures))
		if total += len(w); total > maxFeatures {
			failed = fmt.Errorf("words")
		}
		for j := range w {
			w[j] = embed.Feature(next(uint64(2*size - 1)))
		}
		if out[i] = w; failed != nil {
			return nil, failed
		}
	}
	if failed != nil || len(b) != 0 {
		return nil, fmt.Errorf("words")
	}
	return out, nil
}

// vector is what the embedder gave.
func (r row) vector(size int) []float32 {
	if r.floats != nil {
		return r.floats
	}
	return embed.Sum(size, r.words...)
}

// readHeader returns the header, or nil when there is none.
func readHeader(st *store.Store, graph string) (*header, error) {
	b, err := st.Get(graph, space, keyHeader)
	if err != nil || b == nil {
		return nil, err
	}
	var h header
	if err := json.Unmarshal(b, &h); err != nil {
		return nil, fmt.Errorf("%w: header of graph %s: %w", ErrCorrupt, graph, err)
	}
	if h.Format != format {
		return nil, fmt.Errorf("%w: vectors of graph %s have format %d, this build reads %d", ErrCorrupt, graph, h.Format, format)
	}
	return &h, nil
}

func headerOp(graph string, o Options) store.Op {
	b, _ := json.Marshal(header{format, o.Embedder, o.Size, o.groups()}) // of numbers and strings: cannot fail
	return store.Op{Graph: graph, Space: space, Key: keyHeader, Value: b}
}

func positionOp(graph string, seq uint64) store.Op {
	return store.Op{Graph: graph, Space: space, Key: slices.Clone(keyPosition), Value: binary.BigEndian.AppendUint64(nil, seq)}
}
