package researcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/agent"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/llm"
)

const (
	// maxFound is how many pieces a step brings at most.
	maxFound = 12
	// maxNamed is how many names like a wrong one are said, and maxName how much of each, in bytes.
	maxNamed, maxName = 5, 80
	// before is how far before a piece its surroundings begin, in bytes, and maxAround how many chunks they have.
	before, maxAround = 400, 4
	// maxNote is how much of what a tool says besides its evidence is kept, in bytes.
	maxNote = 800
	// shortQuote is below what a quote is shown with the sentences that it stands in, in bytes: that of a mention is a name.
	shortQuote = 80
)

// graphDesk asks a graph with the tools that agents have.
type graphDesk struct {
	ask    agent.Asker
	kit    *agent.Kit
	within *api.Within
}

// NewDesk asks with the tools of kit. ask and within are those that kit was made with.
func NewDesk(ask agent.Asker, kit *agent.Kit, within *api.Within) Desk {
	d := &graphDesk{ask: ask, kit: kit}
	if within.Any() {
		d.within = within
	}
	return d
}

// Do implements Desk. What a tool refuses is a note.
func (d *graphDesk) Do(ctx context.Context, a Action, at Evidence) (Found, error) {
	if a.Name == ActRead {
		return d.around(ctx, at)
	}
	var out Found
	name, args := call(a)
	r, code, err := d.call(ctx, name, args)
	if a.Name == ActSearch && (code == "no_vectors" || code == "embedder_mismatch") {
		out.Hindered = "searched by words alone: there are no vectors to search by (" + code + ")"
		args["mode"] = "lexical"
		r, code, err = d.call(ctx, name, args)
	}
	if err == nil && code == "entity_not_found" && a.Query != "" {
		return d.named(ctx, a.Query)
	}
	if err != nil {
		return out, err
	}
	var partly struct{ Failed []api.FailedMethod }
	if a.Name == ActSearch && again(r.Data, &partly) == nil {
		for _, f := range partly.Failed {
			out.Hindered = fmt.Sprintf("searched without mode %s: %s (%s)", f.Method, llm.Clip(f.Message, maxNote), f.Code)
		}
	}
	out.Seq = seq(r)
	if code != "" || len(r.Evidence) == 0 {
		out.Note = llm.Clip(strings.TrimSpace(r.Text), maxNote)
	}
	out.Evidence, err = d.pieces(ctx, r.Evidence[:min(len(r.Evidence), maxFound)])
	return out, err
}

// named finds the entities whose name is like one that no entity has.
func (d *graphDesk) named(ctx context.Context, name string) (out Found, err error) {
	r, code, err := d.call(ctx, "find_entity", map[string]any{"query": name, "limit": maxNamed})
	if err != nil {
		return out, err
	}
	var said struct {
		Results []struct{ Name, Type string }
	}
	if err := again(r.Data, &said); err != nil {
		return out, err
	}
	if out.Seq, out.Note = seq(r), "no entity has that name"; code == "" && len(said.Results) > 0 {
		out.Note += "; names like it:"
		for _, e := range said.Results {
			out.Note += fmt.Sprintf(" %q (%s)", llm.Clip(e.Name, maxName), e.Type)
		}
	}
	out.Evidence, err = d.pieces(ctx, r.Evidence)
	return out, err
}

// around reads the chunks of a document that stand around a piece: the one before, its own, those behind.
func (d *graphDesk) around(ctx context.Context, at Evidence) (out Found, err error) {
	raw, err := d.ask.Ask(ctx, "query.document", api.DocumentGet{Key: at.Document, FromByte: max(0, at.Start-before), MaxChunks: maxAround, Within: d.within})
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return Found{Note: "the document is not there any more"}, nil
	}
	if err != nil {
		return out, err
	}
	var r api.DocumentReply
	if err := json.Unmarshal(raw, &r); err != nil {
		return out, fmt.Errorf("the reply of query.document: %w", err)
	}
	out.Seq = r.Seq
	if r.State != "open" {
		out.Note = "the document was deleted"
		return out, nil
	}
	for _, c := range r.Chunks {
		out.Evidence = append(out.Evidence, Evidence{
			ID: api.EvidenceID(api.Cited{Chunk: c.ID, Start: c.Start, End: c.End}), Document: r.Document.Key, Start: c.Start, End: c.End, Quote: c.Text,
		})
	}
	if len(out.Evidence) == 0 {
		out.Note = "its running text is not to be seen here"
	}
	return out, nil
}

// call is the tool of a step, with its arguments.
func call(a Action) (string, map[string]any) {
	switch a.Name {
	case ActEntity:
		return "describe_entity", map[string]any{"entity": a.Query}
	case ActRelations:
		args := map[string]any{"entity": a.Query}
		if a.Relation != "" {
			args["relation_types"] = []string{a.Relation}
		}
		return "explore_relations", args
	case ActPath:
		return "find_path", map[string]any{"from": a.From, "to": a.To}
	case ActTypes:
		return "list_relation_types", map[string]any{}
	}
	return "search", map[string]any{"query": a.Query, "mode": "hybrid", "kinds": []string{"chunk", "relation"}, "limit": maxFound}
}

// call calls a tool; code is that of its refusal.
func (d *graphDesk) call(ctx context.Context, name string, args map[string]any) (r agent.Result, code string, err error) {
	t, ok := d.kit.Tool(ctx, name)
	if !ok {
		return r, "", fmt.Errorf("there is no tool %s", name)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return r, "", fmt.Errorf("arguments of %s: %w", name, err)
	}
	if r, err = t.Call(ctx, raw); err != nil || !r.Error {
		return r, "", err
	}
	var said struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if err := again(r.Data, &said); err != nil || said.Error.Code == "" {
		return r, "refused", err
	}
	return r, said.Error.Code, nil
}

// again reads the JSON of a result.
func again(data, into any) error {
	b, err := json.Marshal(data)
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		return fmt.Errorf("the result of a tool: %w", err)
	}
	return nil
}

func seq(r agent.Result) uint64 {
	var said struct {
		Seq uint64 `json:"seq"`
	}
	if again(r.Data, &said) != nil {
		return 0
	}
	return said.Seq
}

// pieces looks up evidence by its ids, in order. What is not there any more is left out.
func (d *graphDesk) pieces(ctx context.Context, ids []string) (out []Evidence, err error) {
	list, _, err := d.citations(ctx, ids)
	for _, c := range list {
		if c.Status == api.CitationOK {
			out = append(out, piece(c))
		}
	}
	return out, err
}

// citations says of each id what became of it.
func (d *graphDesk) citations(ctx context.Context, ids []string) (out []api.Citation, seq uint64, err error) {
	for len(out) < len(ids) {
		rest := ids[len(out):]
		rest = rest[:min(len(rest), api.MaxCitations)]
		raw, err := d.ask.Ask(ctx, "query.citations", api.CitationsGet{IDs: rest, Within: d.within})
		if err != nil {
			return nil, 0, err
		}
		var r api.CitationsReply
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, 0, fmt.Errorf("the reply of query.citations: %w", err)
		}
		if len(r.Citations) == 0 || len(r.Citations) > len(rest) {
			return nil, 0, fmt.Errorf("query.citations: %d answers to %d ids", len(r.Citations), len(rest))
		}
		out, seq = append(out, r.Citations...), r.Seq
	}
	return out, seq, nil
}

// piece is a citation as a piece of evidence: a short quote with the sentences around it.
func piece(c api.Citation) Evidence {
	e := Evidence{ID: c.ID, Document: c.Document, Start: c.Start, End: c.End, Quote: c.Quote, About: about(c), Kept: c.Kept}
	if len(c.Quote) < shortQuote && c.Passage != "" {
		from, to := -1, -1
		for _, s := range split(c.Passage) {
			if s.Start < c.End-c.PassageStart && s.End > c.Start-c.PassageStart {
				if to = s.End; from < 0 {
					from = s.Start
				}
			}
		}
		if from >= 0 && from+c.PassageStart <= c.Start && to+c.PassageStart >= c.End {
			e.Start, e.End, e.Quote = from+c.PassageStart, to+c.PassageStart, c.Passage[from:to]
		}
	}
	return e
}

// about says what a citation is evidence of.
func about(c api.Citation) string {
	switch {
	case c.Relation != nil:
		return c.Relation.SourceName + " " + c.Relation.Type + " " + c.Relation.TargetName
	case c.Entity != nil && c.Property != "":
		return fmt.Sprintf("%s: %s is %v", c.Entity.Name, c.Property, c.Value)
	case c.Entity != nil:
		return c.Entity.Name + " (" + c.Entity.Type + ")"
	}
	return ""
}

// Check implements Desk. It asks what fetch_evidence and check_citations ask, and takes of what they call ok only what an open version says.
func (d *graphDesk) Check(ctx context.Context, quotes []Quoted) ([]Verdict, uint64, error) {
	ids := make([]string, len(quotes))
	for i, q := range quotes {
		ids[i] = q.Evidence
	}
	list, seq, err := d.citations(ctx, ids)
	if err != nil {
		return nil, 0, err
	}
	out := make([]Verdict, len(list))
	for i, c := range list {
		switch quote := quotes[i].Quote; {
		case c.Status != api.CitationOK:
			out[i].Why = c.Status
			if c.Why != "" {
				out[i].Why += ": " + c.Why
			}
		case c.Kept:
			out[i].Why = "kept: no current version of its document says it"
		case !strings.Contains(c.Quote, quote) && !strings.Contains(c.Passage, quote):
			out[i].Why = "the quote does not stand in its text now"
		default:
			out[i].OK = true
		}
	}
	return out, seq, nil
}
