// Package ingest reads files where the command runs and uploads them to where the graph lives.
package ingest

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"

	"github.com/factmill/factmill/pkg/bundle"
	"github.com/factmill/factmill/pkg/events"
)

// File is one document to upload.
type File struct {
	// Key of its document: the cleaned path as walked from the argument, with slashes.
	Key  string
	Size int64
	Open func() (fs.File, error)
}

// Problem is a file or directory that is not read.
type Problem struct {
	Path string
	Err  error
	// Harmless is set for what is passed over on purpose, such as links to directories.
	Harmless bool
}

func (p Problem) Error() string { return p.Path + ": " + p.Reason() }

// Reason is why, without the path.
func (p Problem) Reason() string { return reason(p.Err).Error() }

var (
	errNotRegular = errors.New("it is neither a file nor a directory")
	errDirLink    = errors.New("it is a link to a directory; such links are not followed")
)

// reason drops the path that an os error repeats.
func reason(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// Collect lists the files that the arguments name: files, directories (all files below, sorted; names that begin with a dot are
// left out, and links to directories are not followed) and globs (*, ?, [a-z], and ** for any directories). A file that two
// arguments name is listed once. What is no file inside directories, and what cannot be read, are problems; an argument that names
// nothing is an error.
func Collect(args []string) (files []File, problems []Problem, err error) {
	c := &collector{seen: map[string]bool{}}
	for _, a := range args {
		n := len(c.files) + len(c.problems) + c.twice
		if err := c.argument(a); err != nil {
			return nil, nil, err
		}
		if len(c.files)+len(c.problems)+c.twice == n {
			return nil, nil, fmt.Errorf("%s: there are no files in it", a)
		}
	}
	return c.files, c.problems, nil
}

type collector struct {
	seen     map[string]bool
	files    []File
	problems []Problem
	twice    int
}

func (c *collector) argument(a string) error {
	if strings.TrimSpace(a) == "" {
		return errors.New("an argument is empty: name a file, a directory or a glob")
	}
	info, err := os.Stat(a)
	switch {
	case err == nil && info.IsDir():
		if _, err := os.ReadDir(a); err != nil {
			return Problem{Path: a, Err: err}
		}
		return c.walk(filepath.Clean(a), nil)
	case err == nil && info.Mode().IsRegular():
		c.add(filepath.Clean(a), info)
		return nil
	case err == nil:
		return fmt.Errorf("%s is neither a file nor a directory", a)
	case errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(a, "*?["):
		return c.glob(a)
	default:
		return Problem{Path: a, Err: err}
	}
}

func (c *collector) problem(p Problem) {
	p.Path = filepath.ToSlash(p.Path)
	if c.seen[p.Path] {
		c.twice++
		return
	}
	c.seen[p.Path] = true
	c.problems = append(c.problems, p)
}

func (c *collector) add(name string, info fs.FileInfo) {
	key := filepath.ToSlash(name)
	if c.seen[key] {
		c.twice++
		return
	}
	c.seen[key] = true
	c.files = append(c.files, File{Key: key, Size: info.Size(), Open: func() (fs.File, error) { return os.Open(name) }})
}

// walk lists the files below dir that match, or all with match nil.
func (c *collector) walk(dir string, match *regexp.Regexp) error {
	if info, err := os.Lstat(dir); err == nil && info.Mode()&fs.ModeSymlink != 0 {
		dir += string(filepath.Separator) // a link that an argument names is followed
	}
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			c.problem(Problem{Path: name, Err: err})
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if name != dir && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || match != nil && !match.MatchString(filepath.ToSlash(name)) {
			return nil
		}
		info, err := os.Stat(name) // a link to a file is the file
		if err != nil {
			c.problem(Problem{Path: name, Err: err})
			return nil
		}
		switch {
		case info.Mode().IsRegular():
			c.add(name, info)
		case info.IsDir():
			c.problem(Problem{Path: name, Err: errDirLink, Harmless: true})
		default:
			c.problem(Problem{Path: name, Err: errNotRegular})
		}
		return nil
	})
}

func (c *collector) glob(pattern string) error {
	pattern = filepath.ToSlash(filepath.Clean(pattern))
	re, err := compile(pattern)
	if err != nil {
		return fmt.Errorf("%s: bad pattern: %w", pattern, err)
	}
	// The walk begins at the last directory before the first special character.
	dir := "."
	if i := strings.LastIndexByte(pattern[:strings.IndexAny(pattern, "*?[")], '/'); i >= 0 {
		dir = pattern[:max(i, 1)]
	}
	if _, err := os.ReadDir(dir); err != nil {
		return Problem{Path: dir, Err: err}
	}
	before := len(c.files) + c.twice
	if err := c.walk(filepath.FromSlash(dir), re); err != nil {
		return err
	}
	if len(c.files)+c.twice == before && len(c.problems) == 0 {
		return fmt.Errorf("%s matches no file", pattern)
	}
	return nil
}

// compile turns a glob into a regular expression over slash paths.
func compile(glob string) (*regexp.Regexp, error) {
	var b strings.Builder
	b.WriteString("^")
	for i := 0; i < len(glob); i++ {
		switch c := glob[i]; {
		case strings.HasPrefix(glob[i:], "**/"):
			b.WriteString("(?:[^/]+/)*")
			i += 2
		case strings.HasPrefix(glob[i:], "**"):
			b.WriteString(".*")
			i++
		case c == '*':
			b.WriteString("[^/]*")
		case c == '?':
			b.WriteString("[^/]")
		case c == '[':
			end := strings.IndexByte(glob[i+1:], ']')
			if end < 1 {
				return nil, errors.New("a [ has no ]")
			}
			set := glob[i+1 : i+1+end]
			set = strings.NewReplacer(`\`, `\\`, "[", `\[`, "&", `\&`).Replace(set)
			if s, not := strings.CutPrefix(set, "!"); not {
				set = "^" + s
			}
			b.WriteString("[" + set + "]")
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(glob[i : i+1]))
		}
	}
	b.WriteString("$")
	return regexp.Compile(b.String())
}

// FromFS lists every file of a file system, sorted, with keys below prefix.
func FromFS(fsys fs.FS, prefix string) ([]File, error) {
	var out []File
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		out = append(out, File{Key: prefix + name, Size: info.Size(), Open: func() (fs.File, error) { return fsys.Open(name) }})
		return nil
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Key < out[j].Key })
	return out, err
}

// Readable tells the files that can be sent from those that cannot: a job is to name all of them, not the first.
func Readable(files []File) (good []File, bad []Problem) {
	for _, f := range files {
		err := f.check()
		var p Problem
		switch {
		case err == nil:
			good = append(good, f)
		case errors.As(err, &p):
			bad = append(bad, p)
		default:
			bad = append(bad, Problem{Path: f.Key, Err: err})
		}
	}
	return good, bad
}

// check opens a file, and looks at what else a bundle asks of it.
func (f File) check() error {
	r, err := f.Open()
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		return Problem{Path: f.Key, Err: err}
	}
	if f.Size > bundle.MaxEntry {
		return f.tooLarge()
	}
	return bundle.NewWriter(io.Discard).Add(f.Key, events.InputDocument{}, nil)
}

func (f File) tooLarge() error {
	return Problem{Path: f.Key, Err: fmt.Errorf("it has more than %d bytes, which one document may have: split it", bundle.MaxEntry)}
}

// read returns a file's bytes; more than a bundle takes is an error that says how many.
func (f File) read() ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, Problem{Path: f.Key, Err: err}
	}
	b, err := io.ReadAll(io.LimitReader(r, bundle.MaxEntry+1))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, Problem{Path: f.Key, Err: err}
	}
	if len(b) > bundle.MaxEntry {
		return nil, f.tooLarge()
	}
	return b, nil
}
