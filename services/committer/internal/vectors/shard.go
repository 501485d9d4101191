package vectors

type shardKey struct {
	kind  Kind
	label string
}

// shard is the vectors of one label, each in one of the three.
type shard struct {
	key     shardKey
	words   *words
	grouped *words // those with a group
	dense   *dense
}

type place struct {
	shard *shard
	slot  uint32
	in    in
}

type in uint8

const (
	inWords in = iota
	inGrouped
	inDense
)

func newShard(k shardKey, size int) *shard {
	return &shard{key: k, words: newWords(size), grouped: newWords(size), dense: newDense(size)}
}
