package store

import (
	"errors"
	"fmt"
)

// Errors that callers tell apart with errors.Is.
var (
	// ErrInUse: another process (or another Open of this one) holds the data directory.
	ErrInUse = errors.New("data directory is in use")
	// ErrNewerFormat: a newer version of the program wrote the data directory.
	ErrNewerFormat = errors.New("data directory has a newer format")
	// ErrOlderFormat: a copy of a store that an older version wrote; that store is brought forward by its writer.
	ErrOlderFormat = errors.New("the copy has an older format: start the committer's newer version first")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("store is closed")
	// ErrBroken: a write failed in a way after which the store must be opened anew; what was under way is unclear.
	ErrBroken = errors.New("store is broken and must be opened anew")
	// ErrDamaged: a file of the store is not what was written to it. Opening it anew does not help, a backup does.
	ErrDamaged = errors.New("a file of the store is damaged")
	// ErrNoSpace: the free space is below the reserve; reads go on.
	ErrNoSpace = errors.New("free space is below the reserve")
	// ErrNoGraph: no graph of that name exists.
	ErrNoGraph = errors.New("no such graph")
	// ErrSequence: the graph has not reached the sequence that a reader asked for.
	ErrSequence = errors.New("sequence not reached")
	// ErrStale: the change was decided against another state of its document and cannot be applied to the present one; it
	// has to be decided anew.
	ErrStale = errors.New("decision is stale")
	// ErrBadChange: the change contradicts itself: a span outside its chunk or inside a rune, a name that is not at its span,
	// an entity that is not listed. No retry helps.
	ErrBadChange = errors.New("malformed change")
	// ErrDone: the transaction was finished or aborted.
	ErrDone = errors.New("transaction has ended")
	// ErrCorrupt: a row cannot be read back.
	ErrCorrupt = errors.New("row cannot be decoded")
)

func badChange(doc, format string, args ...any) error {
	return fmt.Errorf("%w of document %s: %s", ErrBadChange, doc, fmt.Sprintf(format, args...))
}

// ErrStop ends a scan early without an error when a callback returns it.
var ErrStop = errors.New("stop")

func stopped(err error) error {
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}
