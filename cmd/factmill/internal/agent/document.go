package agent

import (
	"context"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
)

// chunksAsked is how many chunks one look at a document asks for.
const chunksAsked = 200

func (k *Kit) readTool() Tool {
	t := Tool{
		Name: "read_document", Title: "Read a document",
		Description: "The text of a document by its key, passage by passage in order, each with an evidence id to cite; long documents go on with the cursor.",
		InputSchema: object(required("document"), field("document", "string", "the key of a document, as results name it"), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Document string `json:"document"`
			Cursor   string `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		if a.Document == "" {
			return Result{}, badArg("document is empty: give the key of a document, as results name it")
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		return k.readDocument(ctx, a.Document, at)
	}
	return t
}

// readDocument gives the pieces of a document; a cursor counts bytes of it in Skip, and names its version in Seq.
func (k *Kit) readDocument(ctx context.Context, key string, at cursor) (Result, error) {
	r, err := get[api.DocumentReply](ctx, k, "query.document", api.DocumentGet{Key: key, FromByte: at.Skip, MaxChunks: chunksAsked, Within: k.within})
	if err != nil {
		return Result{}, err
	}
	if r.State != "open" {
		return failure("document_not_found", "the document was deleted: what it said is not shown", nil), nil
	}
	if at.Seq != 0 && at.Seq != uint64(r.Version) {
		return Result{}, badArg("cursor is of version %d of the document, which has version %d now: leave cursor out to begin anew", at.Seq, r.Version)
	}
	from := at.Skip
	p := &page{k: k, at: cursor{Tool: at.Tool, Call: at.Call}, seq: r.Seq}
	p.say("Document %s, title %s, version %d.", quoted(r.Document.Key), quoted(r.Document.Title), r.Version)
	p.data = map[string]any{"document": r.Document.Key, "title": r.Document.Title, "version": r.Version}
	used, ended := 0, 0
	cut := false
	for _, c := range r.Chunks {
		start := max(c.Start, from)
		for start < c.End && !cut {
			part := pieceOf(c.Text[start-c.Start:])
			x := chunkPiece(c, start, part)
			if used += len(x.text) + 8; used > k.bytes && ended > 0 {
				cut = true
				break
			}
			p.add(x)
			start += len(part)
			ended = start
		}
		if cut {
			break
		}
	}
	p.whole = true
	out := p.result("The document has no text behind this.")
	if cut || r.Next != "" {
		next := cursor{Tool: at.Tool, Call: at.Call, Skip: max(ended, from), Seq: uint64(r.Version)}
		out.Next = next.String()
		if m, ok := out.Data.(map[string]any); ok {
			m["next_cursor"] = out.Next
		}
		out.Text += "\nThere is more: call again with the same arguments and cursor " + out.Next + "\n"
	}
	return out, nil
}

// pieceOf is the beginning of a text, at most maxPiece long, cut at a line's or a word's end where there is one.
func pieceOf(text string) string {
	if len(text) <= maxPiece {
		return text
	}
	head := text[:maxPiece]
	for _, sep := range []string{"\n", " "} {
		if i := strings.LastIndex(head, sep); i > maxPiece/2 {
			return text[:i+1]
		}
	}
	n := maxPiece
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
