package fingerprint

import (
	"crypto/sha256"
	"encoding/base32"
	"strconv"

	"github.com/google/uuid"
)

// tokenBytes is how much of a SHA-256 a subject token carries; 15 bytes are 24 base32 characters without padding.
const tokenBytes = 15

var tokenEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// U5 returns the UUIDv5 of s in the OID namespace, as lower-case text.
func U5(s string) string {
	return uuid.NewSHA1(uuid.NameSpaceOID, []byte(s)).String()
}

// DocumentID returns the id of the document with this key.
func DocumentID(key string) string {
	return U5("Document:" + key)
}

// ChunkID returns the id of chunk number index (from 0) of one document version under one chunker.
func ChunkID(docID, contentHash, chunkerFP string, index int) string {
	return U5("Chunk:" + docID + ":" + contentHash + ":" + chunkerFP + ":" + strconv.Itoa(index))
}

// EntityID returns the id of the entity with this label and merge key; folded is Fold of its name.
func EntityID(label, folded string) string {
	return U5("Entity:" + label + ":" + folded)
}

// HomonymID returns the id of one of several entities that share label and merge key and that a person told apart by
// the value of an identifying property. value is the canonical text of that value.
func HomonymID(label, folded, value string) string {
	return U5("Entity:" + label + ":" + folded + ":#" + value)
}

// RelationID returns the id of the relation of this type between two entities. A symmetric relation has one id in both
// directions.
func RelationID(relType, sourceID, targetID string, symmetric bool) string {
	if symmetric && targetID < sourceID {
		sourceID, targetID = targetID, sourceID
	}
	return U5(relType + ":" + sourceID + ":" + targetID)
}

// MatchID returns the id of the match of two entities, whichever is named first.
func MatchID(a, b string) string {
	if b < a {
		a, b = b, a
	}
	return U5("Match:" + a + ":" + b)
}

// MatchKey is the key under which a decision about a match is known.
func MatchKey(a, b string) string {
	if b < a {
		a, b = b, a
	}
	return "match|" + a + "|" + b
}

// ConflictKey is the key of the conflict of an entity's or relation's property.
func ConflictKey(owner, property string) string { return "conflict|" + owner + "|" + property }

// ConflictID returns the id of the conflict of an entity's or relation's property.
func ConflictID(owner, property string) string { return U5(ConflictKey(owner, property)) }

// CandidateID returns the id of a candidate record of one document: it changes with content or settings, key does not.
// key is one of EntityKey, RelationKey and PropertyKey.
func CandidateID(docID, key, contentHash, chunkerFP, schemaFP, extractionFP string) string {
	return U5("Candidate:" + docID + ":" + key + ":" + H16Strings(contentHash, chunkerFP, schemaFP, extractionFP))
}

// Token returns key as one subject token of 24 characters in [a-z2-7]: base32 of the first 15 bytes of its SHA-256. It
// stands for document keys and source names in subjects.
func Token(key string) string {
	sum := sha256.Sum256([]byte(key))
	return tokenEncoding.EncodeToString(sum[:tokenBytes])
}
