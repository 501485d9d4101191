package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/factmill/factmill/cmd/factmill/internal/labels"
	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/graph"
)

const (
	defaultHits = 10
	maxHits     = 50
	mostHits    = 100 // that the verb gives, over all pages
	hiddenHits  = 10  // asked for beyond a page: one says that there is more, others may be hidden
	modeHybrid  = "hybrid"
	modeLexical = "lexical"
)

type searchArgs struct {
	Query     string   `json:"query"`
	Kinds     []string `json:"kinds,omitempty"`
	Mode      string   `json:"mode,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Documents []string `json:"documents,omitempty"`
	Scope     []string `json:"scope,omitempty"`
	Limit     int      `json:"limit,omitempty"`
	Cursor    string   `json:"cursor,omitempty"`
}

func (k *Kit) searchTool() Tool {
	t := Tool{
		Name: "search", Title: "Search the graph",
		Description: "Search entities, relations and passages of documents by words and by meaning, best first. Each hit comes with evidence ids to cite. Ask with the few words that matter, or with the whole question; " +
			"narrow with kinds (entity, relation, chunk), labels (entity or relation types), documents (keys) or scope.",
		InputSchema: object(required("query"), field("query", "string", "words or a question"),
			enums("kinds", "what to look for; all when left out", "entity", "relation", "chunk"),
			enum("mode", "hybrid (default: words and vectors), lexical (words), vector", modeHybrid, modeLexical, "vector"),
			list("labels", "only entities and relations of these types, and passages that mention such an entity"), list("documents", "only from documents with these keys"),
			list("scope", "only from documents with one of these scope labels"), number("limit", "hits a page", defaultHits, maxHits), cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a searchArgs
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		return k.search(ctx, t, a)
	}
	return t
}

func checkQuery(q string) error {
	if strings.TrimSpace(q) == "" {
		return badArg("query is empty: give the words to look for")
	}
	return nil
}

func (k *Kit) search(ctx context.Context, t Tool, a searchArgs) (Result, error) {
	if err := errors.Join(checkQuery(a.Query), few("labels", a.Labels), few("documents", a.Documents), few("scope", a.Scope)); err != nil {
		return Result{}, err
	}
	limit, err := between("limit", a.Limit, defaultHits, maxHits)
	if err != nil {
		return Result{}, err
	}
	text := a.Cursor
	a.Cursor = ""
	at, err := going(t, text, a)
	if err != nil {
		return Result{}, err
	}
	p := &page{k: k, at: at, limit: limit}
	req := api.Search{Q: a.Query, Mode: a.Mode, Kinds: a.Kinds, Filters: api.Filters{Labels: a.Labels, Documents: a.Documents, Scope: a.Scope},
		Limit: min(at.Skip+limit+hiddenHits, mostHits), Within: k.within}
	if at.Mode != "" {
		req.Mode = at.Mode
	}
	r, err := k.searched(ctx, p, req, a.Mode)
	if err != nil {
		return Result{}, err
	}
	if p.seq = r.Seq; at.Seq != 0 && at.Seq != r.Seq {
		p.say("The graph has changed since the page before: hits may be missing or come twice; leave cursor out to begin anew.")
	}
	p.at.Seq = r.Seq
	if r.Incomplete {
		p.say("There may be more: too few of the nearest passages passed the filters.")
	}
	for _, h := range r.Hits {
		x, shown, err := hitPiece(h)
		if err != nil {
			return Result{}, err
		}
		if shown {
			p.add(x)
		}
	}
	k.strangers(ctx, p, labels.Of("", a.Labels...))
	return p.result("Nothing was found. Try other or fewer words, or drop filters."), nil
}

// searched asks in the mode that was wished for: without one in hybrid, and by words alone where there are no vectors.
func (k *Kit) searched(ctx context.Context, p *page, req api.Search, wish string) (api.SearchReply, error) {
	if req.Mode == "" {
		req.Mode = modeHybrid
	}
	r, err := get[api.SearchReply](ctx, k, "query.search", req)
	var refused *api.Error
	if wish == "" && errors.As(err, &refused) && (refused.Code == "no_vectors" || refused.Code == "embedder_mismatch") {
		req.Mode = modeLexical
		p.say("Searched by words alone: the graph has no vectors to search by now.")
		r, err = get[api.SearchReply](ctx, k, "query.search", req)
	}
	p.at.Mode = req.Mode
	if err == nil && len(r.Failed) > 0 {
		p.data = map[string]any{"failed": r.Failed}
		for _, f := range r.Failed {
			p.say("Searched without mode %s: %s.", f.Method, plain(cutAt(strings.TrimRight(f.Message, "."), 300)))
		}
	}
	return r, err
}

// hitPiece shows a hit; a relation that somebody decided against is not shown.
func hitPiece(h api.Hit) (x piece, shown bool, err error) {
	switch h.Kind {
	case "entity":
		var e graph.EntityRow
		if err := json.Unmarshal(h.Row, &e); err != nil {
			return piece{}, false, fmt.Errorf("hit %s: %w", h.ID, err)
		}
		return entityHit(e, h.Snippet), true, nil
	case "relation":
		var r graph.RelationRow
		if err := json.Unmarshal(h.Row, &r); err != nil {
			return piece{}, false, fmt.Errorf("hit %s: %w", h.ID, err)
		}
		return relationPiece(r, 1), r.Hidden == "", nil
	}
	var c graph.ChunkRow
	if err := json.Unmarshal(h.Row, &c); err != nil {
		return piece{}, false, fmt.Errorf("hit %s: %w", h.ID, err)
	}
	return chunkPiece(c, c.Start, c.Text), true, nil
}

// cited is evidence as results have it.
type cited struct {
	ID        string  `json:"evidence_id"`
	Document  string  `json:"document"`
	Start     int     `json:"start"`
	End       int     `json:"end"`
	Assertion string  `json:"assertion,omitempty"`
	Score     float64 `json:"confidence"`
	Kept      bool    `json:"kept,omitempty"`
	Text      string  `json:"document_text"`
	Cut       bool    `json:"cut,omitempty"`
}

// cite makes the evidence ids of a fact's evidence, and its text.
func cite(fact, property string, e graph.Evidence) (cited, string) {
	p := api.Cited{Fact: fact, Chunk: e.Chunk, Start: e.Start, End: e.End}
	if property != "" {
		p.Property = api.PropertyMark(property)
	}
	text, cut := passage(e.Quote)
	shown, _ := excerpt(e.Quote)
	c := cited{ID: api.EvidenceID(p), Document: e.Document, Start: e.Start, End: e.End, Assertion: e.Assertion, Score: e.Confidence, Kept: e.Kept, Text: shown, Cut: cut}
	note := ""
	if e.Assertion != "" && e.Assertion != "explicit" {
		note += ", " + plain(e.Assertion)
	}
	if e.Kept {
		note += ", kept: no current version says it"
	}
	return c, fmt.Sprintf("evidence %s in document %s%s\n%s", c.ID, quoted(e.Document), note, text)
}

func entityHit(e graph.EntityRow, snippet string) piece {
	x := piece{text: fmt.Sprintf("entity %s of type %s, id %s, %d mentions in %d documents\n", quoted(e.Name), quoted(e.Type), e.ID, e.MentionsTotal, e.DocumentsTotal)}
	data := map[string]any{"kind": "entity", "id": e.ID, "name": e.Name, "type": e.Type, "mentions": e.MentionsTotal, "documents": e.DocumentsTotal}
	if len(e.Evidence) > 0 {
		first := e.Evidence[0]
		if snippet != "" {
			first.Quote = snippet
		}
		c, text := cite(e.ID, "", first)
		x.text += text
		x.evidence, data["evidence"] = []string{c.ID}, []cited{c}
	}
	x.data = data
	return x
}

// relationPiece shows a relation with at most some of its evidence.
func relationPiece(r graph.RelationRow, most int) piece {
	x := piece{text: fmt.Sprintf("relation %s %s %s, id %s, from %s to %s\n", quoted(r.SourceName), plain(r.Type), quoted(r.TargetName), r.ID, r.Source, r.Target)}
	data := map[string]any{"kind": "relation", "id": r.ID, "type": r.Type, "source": map[string]string{"id": r.Source, "name": r.SourceName},
		"target": map[string]string{"id": r.Target, "name": r.TargetName}}
	if len(r.Properties) > 0 {
		data["properties"] = r.Properties
		x.text += "properties " + propertyText(r.Properties) + "\n"
	}
	var list []cited
	for _, e := range r.Evidence[:min(len(r.Evidence), most)] {
		c, text := cite(r.ID, "", e)
		x.text += text
		x.evidence, list = append(x.evidence, c.ID), append(list, c)
	}
	if total := max(r.EvidenceTotal, len(r.Evidence)); total > len(list) {
		x.text += fmt.Sprintf("(%d of %d pieces of evidence)\n", len(list), total)
		data["evidence_total"] = total
	}
	data["evidence"] = list
	x.data = data
	return x
}

// propertyText is values on one line.
func propertyText(m map[string]any) string {
	b, err := json.Marshal(m)
	if err != nil {
		return "{}"
	}
	return plain(cutAt(string(b), 1000))
}

// chunkPiece shows a part of a chunk that begins at a byte of the document.
func chunkPiece(c graph.ChunkRow, start int, text string) piece {
	shown, cut := excerpt(text)
	id := api.EvidenceID(api.Cited{Chunk: c.ID, Start: start, End: start + len(shown)})
	x := piece{text: fmt.Sprintf("passage of document %s, evidence %s\n", quoted(c.Document), id), evidence: []string{id}}
	data := map[string]any{"kind": "passage", "document": c.Document, "evidence_id": id, "start": start, "end": start + len(shown), "document_text": shown}
	if len(c.Heading) > 0 {
		var heads []string
		for _, h := range c.Heading {
			heads = append(heads, quoted(h))
		}
		x.text += "under " + strings.Join(heads, " > ") + "\n"
		data["heading"] = c.Heading
	}
	body, _ := passage(text)
	if cut {
		data["cut"] = true
	}
	x.text += body
	x.data = data
	return x
}
