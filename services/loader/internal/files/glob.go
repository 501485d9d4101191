package files

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/factmill/factmill/pkg/fault"
)

// maxSegments of a pattern: a set of them is one word.
const maxSegments = 62

func hasMeta(s string) bool { return strings.ContainsAny(s, "*?[") }

// segments splits a pattern at the slashes and checks each part.
func segments(pattern string) ([]string, error) {
	parts := strings.Split(pattern, "/")
	if len(parts) > maxSegments {
		return nil, fault.Bad(CodePattern, "the pattern %s has more than %d parts", show(pattern), maxSegments)
	}
	for i, p := range parts {
		parts[i] = strings.ReplaceAll(p, "[!", "[^")
		if _, err := path.Match(parts[i], ""); err != nil {
			return nil, fault.Bad(CodePattern, "the pattern %s is malformed at %q", show(pattern), p)
		}
	}
	return parts, nil
}

// Match tells whether a slash path matches a pattern, both without "." parts. In a part "*" stands for any run of
// characters, "?" for one, "[a-z]" and "[!a-z]" for one of a set; a whole part "**" stands for any number of parts, none
// included. A name that begins with a dot matches only a part that does.
func Match(pattern, name string) (bool, error) {
	parts, err := segments(pattern)
	if err != nil {
		return false, err
	}
	w := walk{pattern: parts}
	at := w.closure(1)
	for _, n := range strings.Split(name, "/") {
		at = w.step(at, n)
	}
	return w.accepts(at), nil
}

// glob lists the files that match a pattern. Its parts up to the first one with a meta character name the directory to start in.
func (t *Tree) glob(ctx context.Context, pattern string, fn func(string) error) error {
	parts, err := segments(pattern)
	if err != nil {
		return err
	}
	n := 0
	for n < len(parts) && !hasMeta(parts[n]) {
		n++
	}
	base := strings.Join(parts[:n], "/")
	switch {
	case base == "" && n > 0:
		base = "/"
	case base == "":
		base = "."
	}
	real, err := t.find(base)
	if err != nil {
		return err
	}
	found := false
	w := walk{tree: t, ctx: ctx, pattern: parts[n:], fn: func(name string) error { found = true; return fn(name) }}
	if info, err := t.stat(real); err == nil && info.IsDir() {
		if err := w.dir(base, real, w.closure(1)); err != nil {
			return err
		}
	}
	if !found {
		return fault.Bad(CodeNotFound, "the pattern %s matches no file", show(pattern))
	}
	return nil
}

// walk is one recursive listing. A position in the pattern is a set of its parts, one bit each, so that any number of "**" costs
// no more than one.
type walk struct {
	tree    *Tree
	ctx     context.Context
	pattern []string
	fn      func(string) error
}

// closure adds what follows each "**", which may stand for nothing.
func (w *walk) closure(at uint64) uint64 {
	for i, p := range w.pattern {
		if at&(1<<i) != 0 && p == "**" {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// step is the position after one more name.
func (w *walk) step(at uint64, name string) uint64 {
	var next uint64
	for i, p := range w.pattern {
		if at&(1<<i) == 0 {
			continue
		}
		dot := strings.HasPrefix(name, ".")
		if p == "**" {
			if !dot {
				next |= 1 << i
			}
			continue
		}
		if dot && !strings.HasPrefix(p, ".") {
			continue
		}
		if ok, err := path.Match(p, name); err == nil && ok {
			next |= 1 << (i + 1)
		}
	}
	return w.closure(next)
}

func (w *walk) accepts(at uint64) bool { return at&(1<<len(w.pattern)) != 0 }

// descends tells whether anything below a position can match.
func (w *walk) descends(at uint64) bool { return at&(1<<len(w.pattern)-1) != 0 }

// dir lists one directory; name is how it is called, real where it lies.
func (w *walk) dir(name, real string, at uint64) error {
	if err := w.ctx.Err(); err != nil {
		return err
	}
	list, err := w.tree.entries(real)
	if err != nil {
		return w.fn(name)
	}
	for _, e := range list {
		next := w.step(at, e.Name())
		if next == 0 {
			continue
		}
		child, below := path.Join(name, e.Name()), filepath.Join(real, e.Name())
		switch {
		case e.IsDir():
			if w.descends(next) {
				err = w.dir(child, below, next)
			}
		case !w.accepts(next) || linkToDir(e, below):
		default:
			err = w.fn(child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func linkToDir(e fs.DirEntry, p string) bool {
	if e.Type()&fs.ModeSymlink == 0 {
		return false
	}
	info, err := os.Stat(p)
	return err == nil && info.IsDir()
}
