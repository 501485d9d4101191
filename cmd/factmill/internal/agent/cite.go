package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/factmill/factmill/pkg/api"
)

const (
	maxFetched = 20
	maxChecked = api.MaxCitations
	maxAnswer  = 64 << 10 // bytes of a text whose citations are checked
)

func (k *Kit) fetchTool() Tool {
	t := Tool{
		Name: "fetch_evidence", Title: "Fetch evidence",
		Description: "Look up pieces of evidence by their ids (ev_...), as other tools gave them: the exact quote, the passage around it and the fact it stands for. The status is ok, superseded (the document has a newer version, or the fact is not read there any more), " +
			"unavailable (gone, or not to be seen here) or malformed.",
		InputSchema: object(required("evidence_ids"), func(_, props map[string]any) {
			props["evidence_ids"] = map[string]any{"type": "array", "description": "1 to 20 evidence ids", "items": map[string]any{"type": "string"}, "minItems": 1, "maxItems": maxFetched}
		}, cursorField()),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			IDs    []string `json:"evidence_ids"`
			Cursor string   `json:"cursor,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		if len(a.IDs) == 0 || len(a.IDs) > maxFetched {
			return Result{}, badArg("evidence_ids has %d ids: give 1 to %d", len(a.IDs), maxFetched)
		}
		text := a.Cursor
		a.Cursor = ""
		at, err := going(t, text, a)
		if err != nil {
			return Result{}, err
		}
		found, seq, err := k.citations(ctx, a.IDs)
		if err != nil {
			return Result{}, err
		}
		p := &page{k: k, at: at, seq: seq}
		for _, c := range found {
			p.add(citationPiece(c))
		}
		return p.result(""), nil
	}
	return t
}

// citations looks up ids, in order.
func (k *Kit) citations(ctx context.Context, ids []string) (out []api.Citation, seq uint64, err error) {
	for len(out) < len(ids) {
		r, err := get[api.CitationsReply](ctx, k, "query.citations", api.CitationsGet{IDs: ids[len(out):], Within: k.within})
		if err != nil {
			return nil, 0, err
		}
		if len(r.Citations) == 0 || len(r.Citations) > len(ids)-len(out) {
			return nil, 0, fmt.Errorf("query.citations: %d answers to %d ids", len(r.Citations), len(ids)-len(out))
		}
		out, seq = append(out, r.Citations...), r.Seq
	}
	return out, seq, nil
}

// fact says in a line what a citation stands for; empty for a passage.
func fact(c api.Citation) string {
	switch {
	case c.Relation != nil:
		return fmt.Sprintf("states %s %s %s, relation id %s", quoted(c.Relation.SourceName), plain(c.Relation.Type), quoted(c.Relation.TargetName), c.Relation.ID)
	case c.Entity != nil && c.Property != "":
		return fmt.Sprintf("states %s of %s is %s, entity id %s", quoted(c.Property), quoted(c.Entity.Name), propertyValue(c.Value), c.Entity.ID)
	case c.Entity != nil:
		return fmt.Sprintf("mentions %s of type %s, entity id %s", quoted(c.Entity.Name), quoted(c.Entity.Type), c.Entity.ID)
	}
	return ""
}

func propertyValue(v any) string {
	if s, ok := v.(string); ok {
		return quoted(s)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return "?"
	}
	return plain(cutAt(string(b), maxName))
}

func citationPiece(c api.Citation) piece {
	if c.Status != api.CitationOK {
		return piece{text: fmt.Sprintf("evidence %s: %s: %s\n", clipID(c.ID), c.Status, c.Why),
			data: map[string]any{"evidence_id": c.ID, "status": c.Status, "why": c.Why}}
	}
	quote, cut := passage(c.Quote)
	shown, _ := excerpt(c.Quote)
	data := map[string]any{"evidence_id": c.ID, "status": c.Status, "document": c.Document, "version": c.Version, "start": c.Start, "end": c.End, "document_text": shown}
	if cut {
		data["cut"] = true
	}
	x := piece{text: fmt.Sprintf("evidence %s: ok, document %s, version %d\n", c.ID, quoted(c.Document), c.Version), evidence: []string{c.ID}}
	if c.Title != "" {
		x.text += "title " + quoted(c.Title) + "\n"
		data["title"] = c.Title
	}
	if f := fact(c); f != "" {
		x.text += f + "\n"
	}
	if c.Relation != nil {
		data["relation"] = map[string]any{"id": c.Relation.ID, "type": c.Relation.Type, "source": c.Relation.SourceName, "target": c.Relation.TargetName}
	}
	if c.Entity != nil {
		data["entity"] = c.Entity
	}
	if c.Property != "" {
		data["property"], data["value"] = c.Property, c.Value
	}
	if c.Kept {
		x.text += "kept: no current version says it, and nobody withdrew it\n"
		data["kept"] = true
	}
	x.text += quote
	if c.Passage != "" && c.Passage != c.Quote {
		around, _ := passage(c.Passage)
		x.text += "the passage around it\n" + around
		data["passage"], _ = excerpt(c.Passage)
	}
	x.data = data
	return x
}

func clipID(id string) string { return quoted(cutAt(id, 120)) }

// Check is a citation to check: an evidence id and the words that are said to stand there.
type Check struct {
	EvidenceID string `json:"evidence_id"`
	Quote      string `json:"quote"`
}

// Verdict says of a citation whether it holds. OK is that it is current and that its quote stands in its text.
type Verdict struct {
	EvidenceID string `json:"evidence_id"`
	Quote      string `json:"quote,omitempty"`
	OK         bool   `json:"ok"`
	// Status is that of fetch_evidence.
	Status string `json:"status"`
	// InText says whether the quote stands in the evidence, or in the passage around it; absent without a quote.
	InText *bool  `json:"in_text,omitempty"`
	Why    string `json:"why,omitempty"`
	// Document and Fact are of one that is current. Fact is in words.
	Document string `json:"document,omitempty"`
	Fact     string `json:"fact,omitempty"`
}

func (k *Kit) checkTool() Tool {
	t := Tool{
		Name: "check_citations", Title: "Check citations",
		Description: "Check the citations of an answer before it is given: for each evidence id whether it exists and is current, and whether the quoted words stand in its text. Give citations as a list, or the answer as text in which each quote in double quotes is followed by its evidence id in brackets: " +
			`"quoted words" [ev_...].`,
		InputSchema: object(func(_, props map[string]any) {
			props["citations"] = map[string]any{"type": "array", "description": "1 to 50 citations", "minItems": 1, "maxItems": maxChecked, "items": map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"evidence_id"}, "properties": map[string]any{
					"evidence_id": map[string]any{"type": "string"}, "quote": map[string]any{"type": "string", "description": "words that stand in the evidence"}}}}
		}, field("text", "string", "an answer with its markers, instead of citations")),
	}
	t.call = func(ctx context.Context, raw json.RawMessage) (Result, error) {
		var a struct {
			Citations []Check `json:"citations,omitempty"`
			Text      string  `json:"text,omitempty"`
		}
		if err := read(t, raw, &a); err != nil {
			return Result{}, err
		}
		switch {
		case (len(a.Citations) > 0) == (a.Text != ""):
			return Result{}, badArg("give either citations or text")
		case len(a.Text) > maxAnswer:
			return Result{}, badArg("text has %d bytes: at most %d; check it in parts", len(a.Text), maxAnswer)
		case a.Text != "":
			if a.Citations = Citations(a.Text); len(a.Citations) == 0 {
				return Result{}, badArg(`text has no evidence id: write "quoted words" [ev_...]`)
			}
		}
		if len(a.Citations) > maxChecked {
			return Result{}, badArg("there are %d citations: at most %d; check them in parts", len(a.Citations), maxChecked)
		}
		verdicts, seq, err := k.CheckCitations(ctx, a.Citations)
		if err != nil {
			return Result{}, err
		}
		return checked(k, verdicts, seq), nil
	}
	return t
}

// CheckCitations is check_citations for a caller in this process; seq is the commit that the verdicts are of.
func (k *Kit) CheckCitations(ctx context.Context, list []Check) (out []Verdict, seq uint64, err error) {
	for len(list) > 0 {
		part := list[:min(len(list), maxChecked)]
		list = list[len(part):]
		ids := make([]string, len(part))
		for i, c := range part {
			ids[i] = c.EvidenceID
		}
		var found []api.Citation
		if found, seq, err = k.citations(ctx, ids); err != nil {
			return nil, 0, err
		}
		for i, c := range found {
			out = append(out, judge(part[i], c))
		}
	}
	return out, seq, nil
}

func judge(c Check, found api.Citation) Verdict {
	v := Verdict{EvidenceID: cutAt(c.EvidenceID, 120), Quote: c.Quote, Status: found.Status, Why: found.Why, OK: found.Status == api.CitationOK}
	if !v.OK {
		return v
	}
	v.Document, v.Fact = found.Document, fact(found)
	if strings.TrimSpace(c.Quote) == "" {
		v.OK, v.Why = false, "it is current, but no quote was given: whether it says so is not known; put its words in double quotes before its id"
		return v
	}
	in := Quoted(found.Quote, c.Quote) || Quoted(found.Passage, c.Quote)
	v.InText = &in
	if !in {
		v.OK, v.Why = false, "the quoted words do not stand in the evidence: quote them as they are, or cite another piece"
	}
	return v
}

// Quoted says whether words stand in a text, in one piece and from word to word: as they are, but for white space, which counts as one space, the kind of quotation marks and
// apostrophes, and an ellipsis at either end. One within has to stand in the text too: what is left out can turn the sense. Words of fewer than two letters or digits stand nowhere.
func Quoted(text, words string) bool {
	text, words = spaced(text), strings.Trim(spaced(words), "…. ")
	if letters(words) < 2 {
		return false
	}
	for from := 0; ; {
		i := strings.Index(text[from:], words)
		if i < 0 {
			return false
		}
		i += from
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		first, size := utf8.DecodeRuneInString(words)
		last, _ := utf8.DecodeLastRuneInString(words)
		after, _ := utf8.DecodeRuneInString(text[i+len(words):])
		if !(inWord(before) && inWord(first)) && !(inWord(last) && inWord(after)) {
			return true
		}
		from = i + size
	}
}

// inWord is of letters that are parted from others by more than themselves: of scripts without spaces any two letters are words.
func inWord(r rune) bool {
	return (unicode.IsLetter(r) || unicode.IsDigit(r)) && !unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func letters(s string) (n int) {
	for _, r := range s {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			n++
		}
	}
	return n
}

var marksOfQuotes = strings.NewReplacer("“", `"`, "”", `"`, "„", `"`, "«", `"`, "»", `"`, "‘", "'", "’", "'", "‚", "'")

func spaced(s string) string { return marksOfQuotes.Replace(strings.Join(strings.Fields(s), " ")) }

var (
	marker = regexp.MustCompile(`ev_[A-Za-z0-9]+`)
	quotes = regexp.MustCompile(`"([^"]+)"|“([^”]+)”|„([^“”]+)[“”]|«([^»]+)»`)
)

// Citations finds the markers of a text: every evidence id, with the quote that stands last before it in its line, if there is one behind the marker before.
func Citations(text string) []Check {
	var out []Check
	for line := range strings.SplitSeq(text, "\n") {
		from := 0
		for _, m := range marker.FindAllStringIndex(line, -1) {
			c := Check{EvidenceID: line[m[0]:m[1]]}
			before := quotes.FindAllStringSubmatch(line[from:m[0]], -1)
			if n := len(before); n > 0 {
				c.Quote = strings.Join(before[n-1][1:], "")
			} else if len(out) > 0 && from > 0 && strings.Trim(line[from:m[0]], " ,;[]()") == "" {
				c.Quote = out[len(out)-1].Quote // one quote with two sources
			}
			out = append(out, c)
			from = m[1]
		}
	}
	return out
}

func checked(k *Kit, verdicts []Verdict, seq uint64) Result {
	good := 0
	p := &page{k: k, seq: seq, whole: true}
	for _, v := range verdicts {
		line := "does not hold"
		if v.OK {
			line = "holds"
			good++
		}
		x := piece{text: fmt.Sprintf("%s: %s, %s", clipID(v.EvidenceID), line, v.Status), data: v}
		if v.Document != "" {
			x.text += ", document " + quoted(v.Document)
		}
		if v.Why != "" {
			x.text += ": " + v.Why
		}
		x.text += "\n"
		if v.Fact != "" {
			x.text += v.Fact + "\n"
		}
		p.add(x)
	}
	p.say("%d of %d citations hold.", good, len(verdicts))
	p.data = map[string]any{"ok": good == len(verdicts), "holding": good, "checked": len(verdicts)}
	return p.result("")
}
