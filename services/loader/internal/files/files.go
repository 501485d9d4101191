// Package files finds and opens what a document event names by path, within the roots that the operator allows. A path outside
// them is refused before anything is looked at, and again after links are resolved; opening goes through os.Root, so that nothing
// that is moved meanwhile leads outside.
package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/factmill/factmill/pkg/fault"
)

// Codes of the document faults.
const (
	CodeOutside    = "path_outside_roots"
	CodeNotFound   = "source_not_found"
	CodeUnreadable = "unreadable"
	CodeNotAFile   = "not_a_file"
	CodeTooLarge   = "too_large"
	CodePattern    = "bad_value"
)

// Tree is the part of the file system that sources may lie in. Safe for concurrent use.
type Tree struct {
	roots []root
	all   bool
}

type root struct {
	name string // absolute, as configured
	real string // with links resolved
	dir  *os.Root
}

// New opens the roots: directories, absolute or relative to the working directory. With all, every path is allowed and roots
// are only where relative paths are looked for first.
func New(roots []string, all bool) (*Tree, error) {
	t := &Tree{all: all}
	for _, name := range roots {
		abs, err := filepath.Abs(name)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("root %s: %w", name, err), t.Close())
		}
		real, err := filepath.EvalSymlinks(abs)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("root %s: %w", name, err), t.Close())
		}
		dir, err := os.OpenRoot(real)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("root %s: %w", name, err), t.Close())
		}
		t.roots = append(t.roots, root{name: abs, real: real, dir: dir})
	}
	return t, nil
}

// Close lets go of the roots.
func (t *Tree) Close() error {
	var errs []error
	for _, r := range t.roots {
		errs = append(errs, r.dir.Close())
	}
	t.roots = nil
	return errors.Join(errs...)
}

// inside tells whether p is dir or lies below it; both are absolute and clean.
func inside(dir, p string) bool {
	rel, err := filepath.Rel(dir, p)
	return err == nil && filepath.IsLocal(rel)
}

// places lists where name may lie, best first: a relative one in each root, then in the working directory.
func (t *Tree) places(name string) ([]string, error) {
	name = filepath.FromSlash(name)
	var tries []string
	if filepath.IsAbs(name) {
		tries = []string{filepath.Clean(name)}
	} else {
		for _, r := range t.roots {
			tries = append(tries, filepath.Join(r.name, name))
		}
		if abs, err := filepath.Abs(name); err == nil {
			tries = append(tries, abs)
		}
	}
	out := tries[:0]
	for _, p := range tries {
		if t.allowed(p) {
			out = append(out, p)
		}
	}
	if len(out) == 0 {
		return nil, t.outside(name)
	}
	return out, nil
}

func (t *Tree) allowed(p string) bool {
	if t.all {
		return true
	}
	for _, r := range t.roots {
		if inside(r.name, p) || inside(r.real, p) {
			return true
		}
	}
	return false
}

func (t *Tree) outside(name string) error {
	if len(t.roots) == 0 {
		return fault.Bad(CodeOutside, "%s: this loader has no roots, so it reads no paths: set loader.roots, or upload the files", show(name))
	}
	return fault.Bad(CodeOutside, "%s lies outside the loader's roots", show(name))
}

// find resolves name to an existing path without links that is allowed.
func (t *Tree) find(name string) (string, error) {
	places, err := t.places(name)
	if err != nil {
		return "", err
	}
	var last error
	for _, p := range places {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			if !t.all && t.rootOf(real) == nil {
				return "", fault.Bad(CodeOutside, "%s leads outside the loader's roots", show(name))
			}
			return real, nil
		}
		if last == nil || !missing(err) {
			last = err
		}
	}
	return "", classify(name, last)
}

func (t *Tree) rootOf(real string) *root {
	for i := range t.roots {
		if inside(t.roots[i].real, real) {
			return &t.roots[i]
		}
	}
	return nil
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// classify turns an error of the file system into a fault: what a person must put right is the document's, the rest passes.
func classify(name string, err error) error {
	var f *fault.Error
	switch {
	case err == nil || errors.As(err, &f):
		return err
	case missing(err):
		return fault.Bad(CodeNotFound, "%s does not exist", show(name))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ELOOP), errors.Is(err, syscall.ENAMETOOLONG), tooManyLinks(err):
		return fault.Bad(CodeUnreadable, "%s cannot be read: %v", show(name), reason(err))
	default:
		return fault.Retry("file_system", 0, fmt.Errorf("read %s: %w", show(name), err))
	}
}

// tooManyLinks tells the error of filepath.EvalSymlinks for links in a circle, which has no value to compare with.
func tooManyLinks(err error) bool { return strings.Contains(err.Error(), "too many links") }

// reason drops the path of a path error: it is said already, and the resolved one is the operator's business.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func show(name string) string {
	if len(name) > 300 {
		name = name[:300] + "…"
	}
	return fmt.Sprintf("%q", name)
}

// stat and open go through the root that holds real, or straight where every path is allowed.
func (t *Tree) stat(real string) (fs.FileInfo, error) {
	r := t.rootOf(real)
	if r == nil {
		return os.Stat(real)
	}
	return r.dir.Stat(relative(r.real, real))
}

func (t *Tree) open(real string) (*os.File, error) {
	r := t.rootOf(real)
	if r == nil {
		return os.Open(real)
	}
	return r.dir.Open(relative(r.real, real))
}

func relative(dir, p string) string {
	rel, err := filepath.Rel(dir, p)
	if err != nil { // rootOf has seen that it lies inside
		return "."
	}
	return rel
}

// Open opens a regular file. Errors that are not of class document may pass.
func (t *Tree) Open(name string) (f *os.File, size int64, err error) {
	real, err := t.find(name)
	if err != nil {
		return nil, 0, err
	}
	info, err := t.stat(real)
	if err != nil {
		return nil, 0, classify(name, err)
	}
	if info.IsDir() {
		if _, err := t.entries(real); err != nil {
			return nil, 0, classify(name, err)
		}
		return nil, 0, fault.Bad(CodeNotAFile, "%s is a directory", show(name))
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fault.Bad(CodeNotAFile, "%s is no regular file", show(name))
	}
	if f, err = t.open(real); err != nil {
		return nil, 0, classify(name, err)
	}
	return f, info.Size(), nil
}

// Read reads from r what should be size bytes of name, and refuses more than limit.
func Read(ctx context.Context, r io.Reader, name string, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, TooLarge(name, size, limit)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	buf := make([]byte, size+1) // one more, to see that it has ended
	n, err := io.ReadFull(r, buf)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return buf[:n], nil
	}
	if err != nil {
		return nil, fault.Retry("file_system", 0, fmt.Errorf("read %s: %w", show(name), err))
	}
	rest, err := io.ReadAll(io.LimitReader(r, limit-int64(n)+1)) // it grew
	if err != nil {
		return nil, fault.Retry("file_system", 0, fmt.Errorf("read %s: %w", show(name), err))
	}
	if int64(n+len(rest)) > limit {
		return nil, TooLarge(name, int64(n+len(rest)), limit)
	}
	return append(buf, rest...), nil
}

// TooLarge is the fault of a source over the limit.
func TooLarge(name string, size, limit int64) error {
	return fault.Bad(CodeTooLarge, "%s has %d bytes: at most %d", show(name), size, limit)
}

func (t *Tree) entries(real string) ([]fs.DirEntry, error) {
	d, err := t.open(real)
	if err != nil {
		return nil, err
	}
	list, err := d.ReadDir(-1)
	if cerr := d.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, err
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Name() < list[j].Name() })
	return list, nil
}

// List calls fn with every file that a source names, in order: the cleaned slash path, as walked from the argument.
//
//   - a file: itself;
//   - a directory: every file below it, recursively, sorted by name directory by directory;
//   - a pattern (see Match): every file that matches.
//
// In directories and patterns names that begin with a dot are passed over unless the pattern spells the dot, and links to
// directories are not followed; links to files are. What is no regular file or cannot be read (a directory included) is
// handed to fn like a file, so that opening it says what is wrong. Errors about the named source itself (missing,
// outside, a pattern that is malformed or matches nothing) are document faults; fn's error is returned as it is.
func (t *Tree) List(ctx context.Context, arg string, fn func(name string) error) error {
	clean := path.Clean(filepath.ToSlash(arg))
	real, err := t.find(clean)
	if err != nil {
		if !hasMeta(clean) || fault.Of(err).Code != CodeNotFound {
			return err
		}
		return t.glob(ctx, clean, fn)
	}
	info, err := t.stat(real)
	if err != nil {
		return classify(clean, err)
	}
	if !info.IsDir() {
		return fn(clean)
	}
	w := walk{tree: t, ctx: ctx, pattern: []string{"**"}, fn: fn}
	return w.dir(clean, real, w.closure(1))
}
