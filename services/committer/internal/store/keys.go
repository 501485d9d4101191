package store

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
)

// A key is: graph number (4 bytes, big endian), space (1 byte), and the parts below. Ids take 16 bytes, numbers 4 big endian;
// strings end with 00 01 and write a 00 as 00 FF, so that no key's prefix is another's. Graph number 0 holds the store's own rows.
// What Pebble is given is a key with its end, and for the rows of facts with the commit's sequence (see comparer).
//
// Lower-case letters and marks belong to this package, upper-case letters and digits to its users.
const (
	spaceDoc      = 'd' // document id
	spaceVersion  = 'v' // document id, version
	spaceText     = 'x' // document id, version
	spaceAssert   = 'a' // document id, version
	spaceKey      = 'k' // document key → document id
	spaceChunk    = 'c' // chunk id → document id, version, index
	spaceNo       = 'h' // number of a version's first chunk → document id, version, terms of each chunk
	spaceEntity   = 'e' // entity id
	spaceName     = 'n' // folded name, entity id
	spaceMention  = 'm' // entity id, document id
	spaceProp     = 'p' // owner id, property, value, document id
	spacePropFold = 'q' // owner id, property, value
	spaceRelation = 'r' // relation id
	spaceEvidence = 'w' // relation id, document id
	spaceOut      = 'o' // source id, type, target id → relation id
	spaceIn       = 'i' // target id, type, source id → relation id
	spaceCand     = 't' // document id, candidate key
	spaceCandKey  = 'g' // candidate key, document id
	spaceDecision = 'y' // candidate key
	spaceCandID   = '@' // id of a candidate record, past ones too → document id, candidate key
	spacePosting  = 'l' // list, term, part
	spaceCounts   = 's' //
	spaceMatch    = '=' // entity id, entity id; once from either side
	spaceVerdict  = '!' // entity id, greater entity id
	spaceMatchID  = '#' // match id → entity id, greater entity id
	spaceStale    = '~' // id of a stale item → document, fact, what is kept
	spaceStaleID  = ':' // id of a stale item that was decided → document id, fact id
	spaceConflict = '%' // conflict id → owner id, property, number of values
	spaceRuling   = '^' // owner id, property
	spaceRulingID = '&' // conflict id → owner id, property
	spaceDegree   = '$' // relation type and side, entity id → number of relations, where there are two or more
	spaceDegreeID = '?' // conflict id → entity id, relation type, side
	spaceApart    = '*' // id of an entity of whose name several things are told apart → property that does
	spaceShape    = '_' // entity label, hash of the names of properties → number of entities, names
	spaceShaped   = ';' // entity label, hash of the names of properties, id of an entity that has values of these and no others
	spaceShapeOf  = '-' // entity id → label, names of the properties that it has values of

	// Rows without a sequence in the key.
	spaceOutbox   = 'b' // number → sequence, event
	spaceFeed     = '>' // sequence, part → job, entities and chunks that it touched
	spaceCandFeed = '+' // sequence, part → ids of candidate records that wait since, or went
	spaceFeedTrim = '<' // → sequence up to which rows of the feed were taken away
	spaceJournal  = 'j' // sequence, batch → keys
	spaceCurrent  = 'u' // → current sequence
	spaceSystem   = 'z' // graph 0: name of a row
	spaceGraph    = 'f' // graph 0: graph name → number
)

// factSpaces are the spaces whose keys end with a sequence.
const factSpaces = "dvxakchenmpqrwoitgyls=!#@%~^&*$?:_;-"

// Lists of postings.
const (
	ListChunks   = byte('c') // text of chunks: numbers are those of chunks
	listEntities = byte('e') // names of entities
)

const (
	idLen     = 16
	headLen   = 5
	maxValKey = 256 // bytes of a string value in a key; a longer one is cut and hashed
)

// id is a UUID.
type id [idLen]byte

// parseID reads the text form of a UUID.
func parseID(s string) (id, bool) {
	var out id
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return out, false
	}
	var packed [32]byte
	copy(packed[0:8], s[0:8])
	copy(packed[8:12], s[9:13])
	copy(packed[12:16], s[14:18])
	copy(packed[16:20], s[19:23])
	copy(packed[20:32], s[24:36])
	if _, err := hex.Decode(out[:], packed[:]); err != nil {
		return id{}, false
	}
	return out, out.String() == s
}

func mustID(s string) (id, error) {
	v, ok := parseID(s)
	if !ok {
		return v, fmt.Errorf("%w: %.60q is no id", ErrBadChange, s)
	}
	return v, nil
}

func (v id) String() string {
	var b [36]byte
	hex.Encode(b[0:8], v[0:4])
	hex.Encode(b[9:13], v[4:6])
	hex.Encode(b[14:18], v[6:8])
	hex.Encode(b[19:23], v[8:10])
	hex.Encode(b[24:36], v[10:16])
	b[8], b[13], b[18], b[23] = '-', '-', '-', '-'
	return string(b[:])
}

// key builds a key part by part.
type key []byte

func newKey(g uint32, space byte) key {
	k := make(key, 0, 96)
	k = binary.BigEndian.AppendUint32(k, g)
	return append(k, space)
}

func (k key) id(v id) key      { return append(k, v[:]...) }
func (k key) u32(v uint32) key { return binary.BigEndian.AppendUint32(k, v) }
func (k key) u64(v uint64) key { return binary.BigEndian.AppendUint64(k, v) }
func (k key) byte(v byte) key  { return append(k, v) }
func (k key) raw(v []byte) key { return append(k, v...) }
func (k key) str(s string) key { return append(k.part(s), 0, 1) }
func (k key) clone() key       { return slices.Clone(k) }

// end makes Pebble's key of a row without a sequence. It stands before all rows of a fact with that key, and is the bound of the
// rows whose key begins so. The memory may be k's.
func (k key) end() []byte { return append(k, endMark) }

// seq makes Pebble's key of a fact row. The memory may be k's.
func (k key) seq(v uint64) []byte {
	return append(binary.BigEndian.AppendUint64(append(k, endMark), ^v), seqMark)
}

// with is seq in memory of its own.
func (k key) with(v uint64) []byte { return append(make(key, 0, len(k)+tailLen), k...).seq(v) }

// next is the least key behind k; its end is behind all rows of a fact with key k. The memory may be k's.
func (k key) next() key { return append(k, 0) }

// part appends a string without its end: the prefix of all strings that begin so.
func (k key) part(s string) key {
	for i := 0; i < len(s); i++ {
		if k = append(k, s[i]); s[i] == 0 {
			k = append(k, 0xFF)
		}
	}
	return k
}

// after is the least key that follows every key with prefix k; nil when there is none.
func after(k key) key {
	for i := len(k) - 1; i >= 0; i-- {
		if k[i] != 0xFF {
			next := k[:i+1].clone()
			next[i]++
			return next
		}
	}
	return nil
}

// keyReader takes a key apart behind its head.
type keyReader struct {
	b   []byte
	bad bool
}

func readKey(k []byte) keyReader {
	if len(k) < headLen {
		return keyReader{bad: true}
	}
	return keyReader{b: k[headLen:]}
}

func (r *keyReader) take(n int) []byte {
	if len(r.b) < n {
		r.bad = true
		return make([]byte, n)
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *keyReader) id() (v id) {
	copy(v[:], r.take(idLen))
	return v
}

func (r *keyReader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }
func (r *keyReader) u64() uint64 { return binary.BigEndian.Uint64(r.take(8)) }

func (r *keyReader) str() string {
	var out []byte
	for i := 0; i+1 < len(r.b); i++ {
		if r.b[i] != 0 {
			out = append(out, r.b[i])
			continue
		}
		if r.b[i+1] == 1 {
			r.b = r.b[i+2:]
			return string(out)
		}
		if r.b[i+1] != 0xFF {
			break
		}
		out = append(out, 0)
		i++
	}
	r.bad = true
	r.b = nil
	return ""
}

// done says whether the key was read without a fault to its end.
func (r *keyReader) done() bool { return !r.bad && len(r.b) == 0 }

// splitRow takes Pebble's key of a row apart; fact says whether it has a sequence. A key that nobody here wrote comes back as it is.
func splitRow(k []byte) (base key, seq uint64, fact bool) {
	n := len(k)
	switch {
	case n >= tailLen && k[n-1] == seqMark && k[n-tailLen] == endMark:
		return k[: n-tailLen : n-tailLen], ^binary.BigEndian.Uint64(k[n-tailLen+1:]), true
	case n > 0 && k[n-1] == endMark:
		return k[: n-1 : n-1], 0, false
	}
	return k, 0, false
}

// valueKey is the text of a property value in a key: equal for equal values. Numbers are equal by value, whatever their Go
// type.
func valueKey(v any) (string, error) {
	switch x := canonicalValue(v).(type) {
	case string:
		if len(x) <= maxValKey {
			return "s" + x, nil
		}
		sum := sha256.Sum256([]byte(x))
		return "t" + x[:maxValKey/4] + hex.EncodeToString(sum[:]), nil
	case bool:
		return "b" + strconv.FormatBool(x), nil
	case int64:
		return "n" + strconv.FormatInt(x, 10), nil
	case float64:
		return "n" + strconv.FormatFloat(x, 'g', -1, 64), nil
	default:
		return "", fmt.Errorf("%w: a value is a %T", ErrBadChange, v)
	}
}

// canonicalValue turns the numbers that JSON may give into int64 where they are whole, else float64.
func canonicalValue(v any) any {
	switch x := v.(type) {
	case int:
		return int64(x)
	case float64:
		if x == float64(int64(x)) && x > -1<<53 && x < 1<<53 {
			return int64(x)
		}
	}
	return v
}

// describe writes a key for people: the space, the ids and texts it is made of, and for Pebble's key of a fact row its sequence.
func describe(k []byte) string {
	if len(k) < headLen {
		return fmt.Sprintf("%x", k)
	}
	space := k[headLen-1]
	r := readKey(k)
	s := describeParts(space, &r)
	if s == "" || r.bad {
		return fmt.Sprintf("%c/%x", space, k[headLen:])
	}
	// The parts say where the key ends; what is left is what Pebble was given.
	if _, seq, fact := splitRow(k); fact && len(r.b) == tailLen {
		return fmt.Sprintf("%c/%s@%d", space, s, seq)
	}
	if len(r.b) > 0 {
		return fmt.Sprintf("%c/%x", space, k[headLen:])
	}
	return fmt.Sprintf("%c/%s", space, s)
}

// describeParts reads the parts of a fact row's key; "" for other spaces.
func describeParts(space byte, r *keyReader) string {
	switch space {
	case spaceDoc, spaceEntity, spaceRelation, spaceChunk, spaceMatchID, spaceCandID, spaceConflict, spaceStale, spaceStaleID, spaceRulingID, spaceApart, spaceDegreeID, spaceShapeOf:
		return r.id().String()
	case spaceVersion, spaceText, spaceAssert:
		return fmt.Sprintf("%s/%d", r.id(), r.u32())
	case spaceKey, spaceDecision:
		return strconv.Quote(r.str())
	case spaceNo:
		return strconv.FormatUint(uint64(r.u32()), 10)
	case spaceName, spaceCandKey:
		return strconv.Quote(r.str()) + "/" + r.id().String()
	case spaceFeed, spaceCandFeed:
		return fmt.Sprintf("%d/%d", r.u64(), r.u32())
	case spaceFeedTrim:
		return "trimmed"
	case spaceMention, spaceEvidence, spaceMatch, spaceVerdict:
		return r.id().String() + "/" + r.id().String()
	case spaceProp:
		return fmt.Sprintf("%s/%s/%q/%s", r.id(), r.str(), r.str(), r.id())
	case spacePropFold:
		return fmt.Sprintf("%s/%s/%q", r.id(), r.str(), r.str())
	case spaceDegree, spaceShape:
		return r.str() + "/" + r.id().String()
	case spaceShaped:
		return fmt.Sprintf("%s/%s/%s", r.str(), r.id(), r.id())
	case spaceRuling:
		return fmt.Sprintf("%s/%s", r.id(), r.str())
	case spaceOut, spaceIn:
		return fmt.Sprintf("%s/%s/%s", r.id(), r.str(), r.id())
	case spaceCand:
		return fmt.Sprintf("%s/%q", r.id(), r.str())
	case spacePosting:
		return fmt.Sprintf("%c/%q/%d", r.take(1)[0], r.str(), r.u32())
	case spaceCounts:
		return "counts"
	default:
		return ""
	}
}
