package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/graph"
)

// InputDocument is one document of a document event.
type InputDocument struct {
	Key             string         `json:"key,omitempty"`
	Text            string         `json:"text,omitempty"`
	Title           string         `json:"title,omitempty"`
	Format          string         `json:"format,omitempty"`
	PublishedAt     string         `json:"published_at,omitempty"`
	ContentDate     string         `json:"content_date,omitempty"`
	SourceUpdatedAt string         `json:"source_updated_at,omitempty"`
	Metadata        map[string]any `json:"metadata,omitempty"`
	Scope           graph.Scope    `json:"scope,omitempty"`

	hasText bool
}

// HasText says whether a text was given, be it empty.
func (d InputDocument) HasText() bool { return d.hasText || d.Text != "" }

// Ingest is the document event.
type Ingest struct {
	Op        string `json:"op,omitempty"`
	Job       string `json:"job,omitempty"`
	Supersede bool   `json:"supersede,omitempty"`
	InputDocument
	Documents   []InputDocument `json:"documents,omitempty"`
	Sources     []string        `json:"sources,omitempty"`
	ErrorPolicy string          `json:"error_policy,omitempty"`
	Atomic      string          `json:"atomic,omitempty"`
	Force       bool            `json:"force,omitempty"`
	Candidates  *bool           `json:"candidates,omitempty"`
	Hold        bool            `json:"hold,omitempty"`
	Deadline    string          `json:"deadline,omitempty"`
}

// Limits of a document event. Larger loads come as sources or uploads.
const (
	MaxKey      = 1024
	MaxMetadata = 64 << 10
	MaxScopes   = 32
	// ObjectPrefix starts a source in the object store.
	ObjectPrefix = "object:"
)

// Refusal is why a document event is refused at the door: a stable code and what to do.
type Refusal struct {
	Code    string
	Message string
}

func (r *Refusal) Error() string { return r.Message }

func refuse(code, format string, args ...any) error {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ParseIngest reads and checks a document event. A body that does not start with "{" is a text itself, which header
// describes (Factmill-Key, Factmill-Title, …). The error is a *Refusal.
func ParseIngest(body []byte, header func(string) string) (*Ingest, error) {
	if header == nil {
		header = func(string) string { return "" }
	}
	in := &Ingest{}
	if !bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) {
		if err := in.fromText(body, header); err != nil {
			return nil, err
		}
	} else if err := in.fromJSON(body); err != nil {
		return nil, err
	}
	return in, in.check()
}

func (in *Ingest) fromText(body []byte, header func(string) string) error {
	in.Text, in.hasText = string(body), true
	in.Key, in.Title, in.Format = header("Factmill-Key"), header("Factmill-Title"), header("Factmill-Format")
	in.PublishedAt, in.ContentDate = header("Factmill-Published-At"), header("Factmill-Content-Date")
	in.SourceUpdatedAt, in.Op = header("Factmill-Source-Updated-At"), header("Factmill-Op")
	in.Job, in.ErrorPolicy = header("Factmill-Job"), header("Factmill-Error-Policy")
	if s := header("Factmill-Scope"); s != "" {
		for _, x := range strings.Split(s, ",") {
			if x = strings.TrimSpace(x); x != "" {
				in.Scope = append(in.Scope, x)
			}
		}
	}
	return nil
}

// fromJSON decodes strictly: an unknown field is refused with its name.
func (in *Ingest) fromJSON(body []byte) error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(in); err != nil {
		return jsonRefusal(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("bad_json", "the event has something after its closing brace")
	}
	// Which fields stand there at all: an empty text is a document, a missing one is not.
	var seen struct {
		Text      *string `json:"text"`
		Documents []struct {
			Text *string `json:"text"`
		} `json:"documents"`
	}
	if err := json.Unmarshal(body, &seen); err != nil {
		return jsonRefusal(err)
	}
	in.hasText = seen.Text != nil
	for i := range seen.Documents {
		in.Documents[i].hasText = seen.Documents[i].Text != nil
	}
	return nil
}

func jsonRefusal(err error) error {
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return refuse("unknown_field", "unknown field %s in the document event", name)
	}
	return refuse("bad_json", "the document event is not valid JSON: %v", err)
}

// Kinds of input an event can have.
func (in *Ingest) inputs() (kinds []string) {
	if in.HasText() {
		kinds = append(kinds, "text")
	}
	if in.Documents != nil {
		kinds = append(kinds, "documents")
	}
	if in.Sources != nil {
		kinds = append(kinds, "sources")
	}
	return kinds
}

func (in *Ingest) check() error {
	if in.Op == "" {
		in.Op = OpAdd
	}
	if in.ErrorPolicy == "" {
		in.ErrorPolicy = PolicyRaise
	}
	if in.Atomic == "" {
		in.Atomic = AtomicJob
	}
	switch in.ErrorPolicy {
	case PolicyRaise, PolicySkip, PolicyQuarantine:
	default:
		return refuse("bad_value", "error_policy is %q: it must be raise, skip or quarantine", clip(in.ErrorPolicy, 80))
	}
	switch in.Atomic {
	case AtomicJob, AtomicDocument:
	default:
		return refuse("bad_value", "atomic is %q: it must be job or document", clip(in.Atomic, 80))
	}
	if in.Job != "" {
		if err := CheckJob(in.Job); err != nil {
			return refuse("bad_name", "%v", err)
		}
	}
	if in.Deadline != "" {
		if d, err := time.ParseDuration(in.Deadline); err != nil || d <= 0 {
			return refuse("bad_value", "deadline is %q: it must be a duration such as 30m", clip(in.Deadline, 80))
		}
	}
	if err := in.checkInput(); err != nil {
		return err
	}
	if err := in.InputDocument.check(); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i := range in.Documents {
		if err := in.Documents[i].check(); err != nil {
			var r *Refusal
			errors.As(err, &r)
			return refuse(r.Code, "documents[%d]: %s", i, r.Message)
		}
		if k := in.Documents[i].Key; k != "" {
			if seen[k] {
				return refuse("duplicate_key", "documents[%d]: the key %q stands twice in one job", i, clip(k, 200))
			}
			seen[k] = true
		}
	}
	return nil
}

func (in *Ingest) checkInput() error {
	kinds := in.inputs()
	if in.Op == OpDelete {
		return in.checkDelete(kinds)
	}
	switch in.Op {
	case OpAdd, OpUpdate:
	default:
		return refuse("bad_value", "op is %q: it must be add, update or delete", clip(in.Op, 80))
	}
	if len(kinds) > 1 {
		return refuse("many_inputs", "the event has %s: give one kind of input", strings.Join(kinds, " and "))
	}
	if len(kinds) == 0 {
		return refuse("no_input", "the event has neither text, documents nor sources")
	}
	if in.Documents != nil && len(in.Documents) == 0 || in.Sources != nil && len(in.Sources) == 0 {
		return refuse("no_input", "the event's list of %s is empty", kinds[0])
	}
	for i, d := range in.Documents {
		if !d.HasText() {
			return refuse("no_input", "documents[%d] has no text", i)
		}
	}
	if in.Key != "" && (in.Documents != nil || len(in.Sources) > 1) {
		return refuse("bad_value", "key names one document: it does not go with several %s", kinds[0])
	}
	for i, s := range in.Sources {
		if strings.TrimSpace(s) == "" || len(s) > 4096 || strings.ContainsRune(s, 0) {
			return refuse("bad_value", "sources[%d] is not a path", i)
		}
	}
	if in.Op == OpUpdate {
		n := len(in.Documents) + len(in.Sources)
		if in.HasText() {
			n = 1
		}
		if n != 1 {
			return refuse("update_one", "update takes exactly one document, not %d", n)
		}
		if in.Key == "" && (len(in.Documents) == 0 || in.Documents[0].Key == "") && len(in.Sources) == 0 {
			return refuse("no_key", "update needs the key of its document")
		}
	}
	return nil
}

func (in *Ingest) checkDelete(kinds []string) error {
	if in.HasText() || in.Sources != nil {
		return refuse("many_inputs", "delete takes key or documents with keys, not %s", strings.Join(kinds, " and "))
	}
	if (in.Key == "") == (len(in.Documents) == 0) {
		return refuse("no_input", "delete needs either key or documents with keys")
	}
	for i, d := range in.Documents {
		if d.Key == "" {
			return refuse("no_key", "documents[%d] has no key to delete", i)
		}
		if d.HasText() {
			return refuse("many_inputs", "documents[%d] has a text: delete takes keys only", i)
		}
	}
	return nil
}

// check refuses what one document's fields may not be.
func (d *InputDocument) check() error {
	if len(d.Key) > MaxKey {
		return refuse("bad_name", "the key has %d bytes: at most %d", len(d.Key), MaxKey)
	}
	for _, r := range d.Key {
		if r < 0x20 || r == 0x7f || r == 0xfffd {
			return refuse("bad_name", "the key %q has control or broken characters", clip(d.Key, 80))
		}
	}
	for _, f := range []struct{ name, v string }{
		{"published_at", d.PublishedAt}, {"content_date", d.ContentDate}, {"source_updated_at", d.SourceUpdatedAt},
	} {
		if f.v == "" {
			continue
		}
		if _, err := ParseTime(f.v); err != nil {
			return refuse("bad_value", "%s is %q: it must be a date (2024, 2024-05, 2024-05-31) or an RFC 3339 time", f.name, clip(f.v, 80))
		}
	}
	if len(d.Title) > 4096 {
		return refuse("bad_value", "the title has %d bytes: at most 4096", len(d.Title))
	}
	if len(d.Format) > 64 {
		return refuse("bad_value", "the format has %d bytes: at most 64", len(d.Format))
	}
	if len(d.Scope) > MaxScopes {
		return refuse("bad_value", "scope has %d labels: at most %d", len(d.Scope), MaxScopes)
	}
	for _, s := range d.Scope {
		if s == "" || len(s) > 128 {
			return refuse("bad_value", "a scope label has %d bytes: 1 to 128", len(s))
		}
	}
	d.Scope = sortedUnique(d.Scope)
	if len(d.Metadata) > 0 {
		if b, err := json.Marshal(d.Metadata); err != nil || len(b) > MaxMetadata {
			return refuse("bad_value", "metadata has %d bytes: at most %d", len(b), MaxMetadata)
		}
	}
	return nil
}

func sortedUnique(in []string) []string {
	if len(in) < 2 {
		return in
	}
	out := append([]string(nil), in...)
	sort.Strings(out)
	n := 1
	for _, s := range out[1:] {
		if s != out[n-1] {
			out[n] = s
			n++
		}
	}
	return out[:n]
}

// ParseTime reads 2024, 2024-05, 2024-05-31, or an RFC 3339 time.
func ParseTime(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02", "2006-01", "2006"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is neither a date nor an RFC 3339 time", clip(s, 80))
}
