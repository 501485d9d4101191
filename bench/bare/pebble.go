package bare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Pebble writes rows of a total size in batches of about a megabyte and syncs them, and returns how long that took. Keys are 24 random bytes behind
// one of a few prefixes.
func Pebble(ctx context.Context, dir string, rows, size int) (took time.Duration, err error) {
	db, err := pebble.Open(dir, &pebble.Options{})
	if err != nil {
		return 0, fmt.Errorf("bare Pebble: %w", err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if rows == 0 {
		return 0, errors.New("bare Pebble: no rows")
	}
	const batchBytes = 1 << 20
	rng := rand.New(rand.NewPCG(1, 1))
	value := make([]byte, max(0, size/rows-25))
	for i := range value {
		value[i] = byte(rng.Uint32())
	}
	begin := time.Now()
	b := db.NewBatch()
	var key [25]byte
	for i := range rows {
		key[0] = byte('A' + i%16)
		for at := 1; at < len(key); at += 8 {
			binary.BigEndian.PutUint64(key[at:], rng.Uint64())
		}
		if err := b.Set(key[:], value, nil); err != nil {
			return 0, fmt.Errorf("bare Pebble: %w", err)
		}
		if b.Len() < batchBytes && i < rows-1 {
			continue
		}
		if err := errors.Join(b.Commit(pebble.Sync), b.Close(), ctx.Err()); err != nil {
			return 0, fmt.Errorf("bare Pebble: %w", err)
		}
		b = db.NewBatch()
	}
	return time.Since(begin), b.Close()
}
