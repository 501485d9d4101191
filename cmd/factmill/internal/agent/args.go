package agent

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
)

// argError is something wrong with the arguments.
type argError struct {
	code string
	text string
}

func (e *argError) Error() string { return e.text }

func badArg(format string, args ...any) error {
	return &argError{"bad_argument", fmt.Sprintf(format, args...)}
}

// read decodes arguments strictly: an argument that the tool does not have is refused with its name and those that it has.
func read(t Tool, args json.RawMessage, into any) error {
	if s := bytes.TrimSpace(args); len(s) == 0 || bytes.Equal(s, []byte("null")) {
		args = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(args))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, more := d.Token(); !errors.Is(more, io.EOF) {
			err = errors.New("there is something behind the arguments")
		}
	}
	var kind *json.UnmarshalTypeError
	switch name, unknown := strings.CutPrefix(fmt.Sprint(err), "json: unknown field "); {
	case err == nil:
		return nil
	case unknown:
		return badArg("%s has no argument %s; it takes %s", t.Name, clip(name), strings.Join(t.arguments(), ", "))
	case errors.As(err, &kind) && kind.Field != "":
		return badArg("argument %s is a JSON %s: it must be %s", kind.Field, kind.Value, wanted(kind.Type.String()))
	default:
		return badArg("the arguments of %s must be a JSON object with %s: %s", t.Name, strings.Join(t.arguments(), ", "), clip(fmt.Sprint(err)))
	}
}

func wanted(goType string) string {
	switch {
	case goType == "string":
		return "text"
	case goType == "int":
		return "a whole number"
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	}
	return "as the tool's schema says"
}

// arguments are the names of the schema, sorted.
func (t Tool) arguments() []string {
	var s struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(t.InputSchema, &s) != nil {
		return nil
	}
	var out []string
	for name := range s.Properties {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// between checks a number that may be absent (0).
func between(name string, n, byDefault, most int) (int, error) {
	if n == 0 {
		return byDefault, nil
	}
	if n < 1 || n > most {
		return 0, badArg("%s is %d: it must be between 1 and %d", name, n, most)
	}
	return n, nil
}

const maxList = 100

func few(name string, list []string) error {
	if len(list) > maxList {
		return badArg("%s has %d values: at most %d", name, len(list), maxList)
	}
	return nil
}

// cursor goes on behind a result: it names the call that it is of.
type cursor struct {
	Tool string `json:"t"`
	// Call is a hash of the arguments without the cursor.
	Call string `json:"h"`
	// Skip is how many pieces were given.
	Skip int `json:"n"`
	// Seq is the commit sequence of the first page where the verb can go on at it.
	Seq uint64 `json:"s,omitempty"`
	// Mode of a search.
	Mode string `json:"m,omitempty"`
}

func (c cursor) String() string {
	b, err := json.Marshal(c)
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// still is the cursor when the graph is at seq; one of another commit is refused, so that no page tells of what is gone.
func (c cursor) still(seq uint64) (cursor, error) {
	if c.Seq != 0 && c.Seq != seq {
		return c, badArg("cursor is of commit %d, and the graph has changed since (%d now): leave cursor out to begin anew", c.Seq, seq)
	}
	c.Seq = seq
	return c, nil
}

// going reads a cursor of a call; args are the arguments with an empty cursor.
func going(t Tool, text string, args any) (cursor, error) {
	call, err := json.Marshal(args)
	if err != nil {
		return cursor{}, badArg("the arguments have no JSON form")
	}
	at := cursor{Tool: t.Name, Call: fingerprint.SHA256Hex(call)[:16]}
	if text == "" {
		return at, nil
	}
	var c cursor
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(text) > 1000 || json.Unmarshal(b, &c) != nil || c.Skip < 0 || c.Skip > 1<<30 {
		return at, badArg("cursor is none that %s gave: leave it out to begin anew", t.Name)
	}
	if c.Tool != at.Tool || c.Call != at.Call {
		return at, badArg("cursor is of another call: repeat that call's arguments, or leave cursor out to begin anew")
	}
	return c, nil
}

// failure is a result that says what is wrong.
func failure(code, message string, more []piece) Result {
	var b strings.Builder
	b.WriteString(message)
	b.WriteByte('\n')
	var results []any
	for _, p := range more {
		b.WriteString(p.text)
		results = append(results, p.data)
	}
	body := map[string]any{"code": code, "message": message}
	if len(results) > 0 {
		body["entities"] = results
	}
	return Result{Text: b.String(), Data: map[string]any{"error": body}, Error: true}
}

// refusal is a refusal of the graph as a result. Its first line is the graph's own and the caller's words; what documents say stands in the details.
func refusal(e *api.Error) Result {
	line, _, _ := strings.Cut(e.Message, "\n")
	var more []piece
	if list, ok := e.Details["entities"].([]any); ok {
		for _, x := range list {
			if m, ok := x.(map[string]any); ok {
				more = append(more, piece{text: fmt.Sprintf("- %s %s, id %s\n", quoted(str(m["type"])), quoted(str(m["name"])), plain(str(m["id"]))), data: m})
			}
		}
	}
	return failure(e.Code, plain(line), more)
}

func str(x any) string {
	s, _ := x.(string)
	return s
}
