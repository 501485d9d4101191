// Package bundle is the format in which files are uploaded to be ingested: a tar archive of regular files, named as their
// documents' keys, in the order in which they are to be listed. What is known of a file besides its bytes stands in PAX
// records of its entry:
//
//	FACTMILL.key                the document's key, when it is not the entry's name
//	FACTMILL.title              FACTMILL.format
//	FACTMILL.published_at       FACTMILL.content_date      FACTMILL.source_updated_at
//	FACTMILL.metadata           a JSON object
//	FACTMILL.scope              a JSON string or list of strings
//
// Other records are ignored, directories passed over. The archive lies in the object store under a name that ends in ".tar";
// the document event names it as "object:<bucket>/<name>.tar". Any tar program can make one (without the records).
package bundle

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/events"
)

// Limits of a bundle.
const (
	// MaxEntry is the most bytes a file may have.
	MaxEntry = 32 << 20
	// MaxEntries is the most files a bundle may have.
	MaxEntries = 1_000_000
)

// Suffix of the object's name that tells a bundle from a single file.
const Suffix = ".tar"

// Codes of what can be wrong with one entry, and with a whole bundle.
const (
	CodeTooLarge = "too_large"
	CodeNotAFile = "not_a_file"
	CodeBadName  = "bad_name"
	CodeBadMeta  = "bad_record"
	CodeBroken   = "bad_bundle"
)

const prefix = "FACTMILL."

// EntryError says that one entry cannot be used; the next ones can.
type EntryError struct {
	Name string // cleaned, valid UTF-8
	Code string
	Err  error
}

func (e *EntryError) Error() string { return e.Err.Error() }
func (e *EntryError) Unwrap() error { return e.Err }

// Writer writes a bundle. Not safe for concurrent use.
type Writer struct {
	tar *tar.Writer
	n   int
}

// NewWriter writes a bundle to w, which stays open.
func NewWriter(w io.Writer) *Writer { return &Writer{tar: tar.NewWriter(w)} }

// Add appends a file. meta says what is known of it; its text is not used. The same calls write the same bytes.
// A file that a Reader would refuse is an *EntryError, after which the writer goes on.
func (w *Writer) Add(name string, meta events.InputDocument, data []byte) error {
	name, err := cleanName(name)
	if err != nil {
		return err
	}
	if len(data) > MaxEntry {
		return tooLarge(name, int64(len(data)))
	}
	if w.n == MaxEntries {
		return fmt.Errorf("a bundle takes at most %d files", MaxEntries)
	}
	records, err := recordsOf(name, meta)
	if err != nil {
		return err
	}
	h := &tar.Header{
		Typeflag: tar.TypeReg, Name: name, Size: int64(len(data)), Mode: 0o644, ModTime: time.Unix(0, 0), Format: tar.FormatPAX, PAXRecords: records,
	}
	if err := w.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("bundle %s: %w", clip(name), err)
	}
	if _, err := w.tar.Write(data); err != nil {
		return fmt.Errorf("bundle %s: %w", clip(name), err)
	}
	w.n++
	return nil
}

// Close ends the archive.
func (w *Writer) Close() error {
	if err := w.tar.Close(); err != nil {
		return fmt.Errorf("end the bundle: %w", err)
	}
	return nil
}

func recordsOf(name string, meta events.InputDocument) (map[string]string, error) {
	if err := meta.Check(); err != nil {
		return nil, &EntryError{Name: name, Code: CodeBadMeta, Err: fmt.Errorf("%s: %w", clip(name), err)}
	}
	out := map[string]string{}
	for _, f := range fields(&meta) {
		if *f.value != "" {
			out[prefix+f.name] = *f.value
		}
	}
	if len(meta.Metadata) > 0 {
		b, err := json.Marshal(meta.Metadata)
		if err != nil {
			return nil, &EntryError{Name: name, Code: CodeBadMeta, Err: fmt.Errorf("%s: metadata: %w", clip(name), err)}
		}
		out[prefix+"metadata"] = string(b)
	}
	if len(meta.Scope) > 0 {
		b, err := json.Marshal(meta.Scope)
		if err != nil {
			return nil, &EntryError{Name: name, Code: CodeBadMeta, Err: fmt.Errorf("%s: scope: %w", clip(name), err)}
		}
		out[prefix+"scope"] = string(b)
	}
	return out, nil
}

type field struct {
	name  string
	value *string
}

func fields(m *events.InputDocument) []field {
	return []field{
		{"key", &m.Key}, {"title", &m.Title}, {"format", &m.Format}, {"published_at", &m.PublishedAt},
		{"content_date", &m.ContentDate}, {"source_updated_at", &m.SourceUpdatedAt},
	}
}

// Entry is one file of a bundle.
type Entry struct {
	// Name is the cleaned name: a slash path, valid UTF-8, at most events.MaxKey bytes. It names a document, never a file.
	Name string
	// Meta holds what the PAX records say; its text is empty.
	Meta events.InputDocument
	Data []byte
}

// Reader reads a bundle entry by entry: memory follows the largest one. Not safe for concurrent use.
type Reader struct {
	tar *tar.Reader
	n   int
}

// NewReader reads a bundle from r.
func NewReader(r io.Reader) *Reader { return &Reader{tar: tar.NewReader(r)} }

// Next returns the next file; io.EOF after the last one. An *EntryError is about this entry alone: call Next again. Any other
// error ends the bundle; when the archive itself is broken it is ErrBroken.
func (r *Reader) Next() (*Entry, error) {
	for {
		h, err := r.tar.Next()
		if errors.Is(err, tar.ErrInsecurePath) { // names are keys here, never paths
			err = nil
		}
		if err != nil {
			return nil, broken(err)
		}
		if h.Typeflag == tar.TypeDir || h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		if r.n++; r.n > MaxEntries {
			return nil, fmt.Errorf("%w: it has more than %d files", ErrBroken, MaxEntries)
		}
		return r.entry(h)
	}
}

// ErrBroken says that the archive cannot be read on.
var ErrBroken = errors.New("the bundle is broken")

func broken(err error) error {
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrWriteTooLong) {
		return fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return fmt.Errorf("read the bundle: %w", err)
}

func (r *Reader) entry(h *tar.Header) (*Entry, error) {
	name, err := cleanName(h.Name)
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
		return nil, &EntryError{Name: name, Code: CodeNotAFile, Err: fmt.Errorf("%s is no regular file", clip(name))}
	}
	if h.Size > MaxEntry {
		return nil, tooLarge(name, h.Size)
	}
	meta, err := metaOf(name, h.PAXRecords)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, min(max(h.Size, 0), 1<<20))
	buf := make([]byte, min(max(h.Size, 512), 64<<10))
	for {
		n, err := r.tar.Read(buf)
		data = append(data, buf[:n]...)
		if len(data) > MaxEntry {
			return nil, tooLarge(name, int64(len(data)))
		}
		if err == io.EOF {
			return &Entry{Name: name, Meta: meta, Data: data}, nil
		}
		if err != nil {
			return nil, broken(err)
		}
	}
}

func metaOf(name string, records map[string]string) (events.InputDocument, error) {
	var m events.InputDocument
	bad := func(format string, args ...any) (events.InputDocument, error) {
		return events.InputDocument{}, &EntryError{Name: name, Code: CodeBadMeta, Err: fmt.Errorf("%s: "+format, append([]any{clip(name)}, args...)...)}
	}
	for _, f := range fields(&m) {
		*f.value = records[prefix+f.name]
		if !utf8.ValidString(*f.value) {
			return bad("%s is not UTF-8", f.name)
		}
	}
	if s := records[prefix+"metadata"]; s != "" {
		if err := json.Unmarshal([]byte(s), &m.Metadata); err != nil {
			return bad("metadata is not a JSON object: %w", err)
		}
	}
	if s := records[prefix+"scope"]; s != "" {
		if err := json.Unmarshal([]byte(s), &m.Scope); err != nil {
			return bad("scope is neither a JSON string nor a list of strings")
		}
	}
	if err := m.Check(); err != nil {
		return bad("%w", err)
	}
	return m, nil
}

// cleanName makes an entry's name the key it stands for.
func cleanName(name string) (string, error) {
	clean := path.Clean(strings.ToValidUTF8(name, "\uFFFD"))
	bad := func(why string) (string, error) {
		return "", &EntryError{Name: clean, Code: CodeBadName, Err: fmt.Errorf("the name %q %s", clip(clean), why)}
	}
	switch {
	case name == "" || clean == "." || clean == "/":
		return bad("names no file")
	case !utf8.ValidString(name):
		return bad("is not UTF-8")
	case len(clean) > events.MaxKey:
		return bad(fmt.Sprintf("has %d bytes: at most %d", len(clean), events.MaxKey))
	case strings.ContainsFunc(clean, func(r rune) bool { return r < 0x20 || r == 0x7f || r == utf8.RuneError }):
		return bad("has control or broken characters")
	}
	return clean, nil
}

func tooLarge(name string, size int64) error {
	return &EntryError{Name: name, Code: CodeTooLarge, Err: fmt.Errorf("%s has %d bytes: at most %d", clip(name), size, MaxEntry)}
}

func clip(s string) string {
	if len(s) > 200 {
		return strings.ToValidUTF8(s[:200], "") + "…"
	}
	return s
}
