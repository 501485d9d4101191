package query

import (
	"cmp"
	"slices"
	"strings"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const explicit = "explicit"

// merged is the evidence of one document in the order of its text: statements of several extractors about one span are one,
// with the highest confidence and all their names.
type merged struct {
	chunk, start, end int
	confidence        float64
	assertion         string
	extractors        []string
}

// comparePlaces orders statements by where they stand; those of one place and assertion are equal.
func comparePlaces(a, b merged) int {
	return cmp.Or(a.chunk-b.chunk, a.start-b.start, a.end-b.end, strings.Compare(a.assertion, b.assertion))
}

// mergeSpans puts what one document says in order.
func mergeSpans(spans []store.EvidenceSpan) []merged {
	out := make([]merged, 0, len(spans))
	for _, s := range spans {
		out = append(out, merged{s.Chunk, s.Start, s.End, s.Confidence, cmp.Or(s.Assertion, explicit), []string{s.Extractor}})
	}
	slices.SortStableFunc(out, comparePlaces)
	n := 0
	for i := range out {
		if n > 0 && comparePlaces(out[n-1], out[i]) == 0 {
			last := &out[n-1]
			last.confidence = max(last.confidence, out[i].confidence)
			last.extractors = append(last.extractors, out[i].extractors...)
			continue
		}
		out[n] = out[i]
		n++
	}
	out = out[:n]
	for i := range out {
		slices.Sort(out[i].extractors)
		out[i].extractors = slices.Compact(out[i].extractors)
	}
	return out
}

// evidence makes the reply's form of one statement, in the request's unit.
func (v *view) evidence(d *docView, m merged) (graph.Evidence, error) {
	id, err := d.chunkID(m.chunk)
	if err != nil {
		return graph.Evidence{}, err
	}
	quote, err := v.slice(d, m.start, m.end)
	if err != nil {
		return graph.Evidence{}, err
	}
	start, end, err := v.span(d, m.start, m.end)
	return graph.Evidence{Assertion: m.assertion, Chunk: id, Confidence: graph.Round6(m.confidence), Document: d.key,
		Start: start, End: end, Extractors: m.extractors, Quote: quote, Kept: d.meta.ClosedSeq != 0}, err
}

func evidenceCost(e graph.Evidence) int {
	n := 190 + textCost(e.Quote) + textCost(e.Document)
	for _, x := range e.Extractors {
		n += len(x) + 3
	}
	return n
}

// listing gathers evidence until its limit or the reply's budget is reached. One piece is always taken while the budget has
// room for it, since a fact without evidence is none.
type listing struct {
	limit  int
	budget *budget
	list   []graph.Evidence
	cut    bool
}

// add says whether there is room for more.
func (l *listing) add(e graph.Evidence) bool {
	if len(l.list) >= l.limit || !l.budget.take(evidenceCost(e)) {
		l.cut = true
		return false
	}
	l.list = append(l.list, e)
	return true
}

// statements gives every statement of a fact's supports that the request's filter admits to fn, by chunk index,
// start and end. fn returns store.ErrStop to end.
func (v *view) statements(s store.EvidenceSupport, fn func(*docView, merged) error) error {
	if err := v.tick(); err != nil {
		return err
	}
	if ok, err := v.admits(s.DocID); err != nil || !ok {
		return err
	}
	d, err := v.at(s.DocID, s.Version)
	if err != nil {
		return err
	}
	for _, m := range mergeSpans(s.Spans) {
		if err := fn(d, m); err != nil {
			return err
		}
	}
	return nil
}

// relationRow is a relation as replies show it. ok is false when its first piece of evidence does not fit in the reply any
// more, or when the filter leaves it without any.
func (v *view) relationRow(f store.RelationFold, limit int, b *budget) (row graph.RelationRow, ok bool, err error) {
	row = graph.RelationRow{ID: f.ID, Kind: "relation", Type: f.Type, Source: f.Source, Target: f.Target}
	if row.SourceName, err = v.nameOf(f.Source); err != nil {
		return row, false, err
	}
	if row.TargetName, err = v.nameOf(f.Target); err != nil {
		return row, false, err
	}
	if row.Hidden, err = v.hidden(f.ID, f.Type, f.Source, f.Target); err != nil {
		return row, false, err
	}
	if row.Properties, err = v.relationProperties(f); err != nil {
		return row, false, err
	}
	if !b.take(320 + textCost(row.SourceName) + textCost(row.TargetName) + len(appendJSON(nil, row.Properties))) {
		return row, false, nil
	}
	l := listing{limit: limit, budget: b}
	err = v.sn.Evidence(f.ID, "", func(s store.EvidenceSupport) error {
		return v.statements(s, func(d *docView, m merged) error {
			e, err := v.evidence(d, m)
			if err != nil {
				return err
			}
			if !l.add(e) {
				return store.ErrStop
			}
			return nil
		})
	})
	row.Evidence, row.EvidenceTotal = l.list, len(l.list)
	if l.cut && v.filter == nil {
		row.EvidenceTotal = f.Evidence
	}
	if err == nil && v.filter == nil {
		row.NoOpenSource, err = v.sourceless(f, l)
	}
	return row, len(l.list) > 0, err
}

// maxSources is how many documents of a relation are looked at for one that states it.
const maxSources = 1000

// sourceless says whether no open version states a relation whose first evidence was listed.
func (v *view) sourceless(f store.RelationFold, l listing) (bool, error) {
	for _, e := range l.list {
		if !e.Kept {
			return false, nil
		}
	}
	if !l.cut {
		return len(l.list) > 0, nil
	}
	looked, none := 0, true
	err := v.sn.Evidence(f.ID, "", func(s store.EvidenceSupport) error {
		if err := v.tick(); err != nil {
			return err
		}
		d, err := v.at(s.DocID, s.Version)
		if err != nil {
			return err
		}
		if looked++; d.meta.ClosedSeq == 0 || looked == maxSources {
			none = false
			return store.ErrStop
		}
		return nil
	})
	return none, err
}

// relationProperties is the value to show of each of a relation's properties.
func (v *view) relationProperties(f store.RelationFold) (map[string]any, error) {
	out := map[string]any{}
	byName, err := v.propertyValues(f.ID)
	if err != nil {
		return nil, err
	}
	rulings, err := v.rulings(f.ID)
	if err != nil {
		return nil, err
	}
	for _, p := range byName {
		rule := schema.MergeMostSupported
		if spec, ok := v.schema.RelationProperty(f.Type, p.name); ok && spec.Merge != "" {
			rule = spec.Merge
		}
		if s := Show(rule, p.values, rulings[p.name]); len(s.Shown) > 0 {
			out[p.name] = s.value()
		}
	}
	return out, nil
}

// nameOf is an entity's display name; an end that is gone shows its id, which verify reports.
func (v *view) nameOf(id string) (string, error) {
	e, ok, err := v.sn.Entity(id)
	if err != nil {
		return "", err
	}
	if !ok {
		return id, nil
	}
	return e.Display(), nil
}

// propertyGroup is the values of one property.
type propertyGroup struct {
	name   string
	values []store.PropertyFold
}

// propertyValues lists an owner's properties by name. Under a filter, only what the admitted documents say counts.
func (v *view) propertyValues(owner string) ([]propertyGroup, error) {
	folds, err := v.sn.PropertyFolds(owner)
	if err != nil {
		return nil, err
	}
	var out []propertyGroup
	for _, f := range folds {
		if v.filter != nil {
			if f, err = v.refold(f); err != nil {
				return nil, err
			}
			if f.Documents == 0 {
				continue
			}
		}
		if n := len(out); n > 0 && out[n-1].name == f.Name {
			out[n-1].values = append(out[n-1].values, f)
			continue
		}
		out = append(out, propertyGroup{f.Name, []store.PropertyFold{f}})
	}
	return out, nil
}

// refold counts a value over the admitted documents.
func (v *view) refold(f store.PropertyFold) (store.PropertyFold, error) {
	out := store.PropertyFold{Owner: f.Owner, Name: f.Name, Value: f.Value}
	err := v.sn.PropertySupports(f.Owner, f.Name, f.Value, func(s store.EvidenceSupport) error {
		if err := v.tick(); err != nil {
			return err
		}
		if ok, err := v.admits(s.DocID); err != nil || !ok {
			return err
		}
		out.Documents++
		for _, e := range s.Spans {
			out.Best = max(out.Best, e.Confidence)
		}
		out.Newest = max(out.Newest, s.Date)
		return nil
	})
	return out, err
}

// properties fills in an entity's properties as replies show them: the value that the schema's rule picks and the others, each with
// at most limit pieces of evidence. What does not fit in the reply is left out.
func (v *view) properties(e store.EntityFold, row *graph.EntityRow, limit int, b *budget) error {
	row.Properties = map[string]graph.PropertyRow{}
	groups, err := v.propertyValues(e.ID)
	if err != nil {
		return err
	}
	rulings, err := v.rulings(e.ID)
	if err != nil {
		return err
	}
	for _, g := range groups {
		s := Show(v.mergeRule(e.Label, g.name), g.values, rulings[g.name])
		if len(s.Shown) == 0 {
			continue
		}
		p, ok, err := v.propertyRow(s, limit, b)
		if err != nil {
			return err
		}
		if !ok || !b.take(4+textCost(g.name)) {
			row.PropertiesTotal = len(groups)
			break
		}
		row.Properties[g.name] = p
	}
	return nil
}

// propertyRow is one property; ok is false when the reply has no room for it and one piece of evidence.
func (v *view) propertyRow(s Showing, limit int, b *budget) (row graph.PropertyRow, ok bool, err error) {
	row = graph.PropertyRow{Value: s.value(), Evidence: graph.Sources{}, Others: []graph.OtherRow{}}
	if !b.take(80 + len(appendJSON(nil, row.Value))) {
		return row, false, nil
	}
	for _, f := range s.Shown {
		more, err := v.propertyEvidence(f, limit, b)
		if err != nil {
			return row, false, err
		}
		row.Evidence = append(row.Evidence, more...)
	}
	others := s.others()
	for i, f := range others {
		if len(row.Others) >= limit || !b.take(40+len(appendJSON(nil, f.Value))) {
			break
		}
		more, err := v.propertyEvidence(f, limit, b)
		if err != nil {
			return row, false, err
		}
		if len(more) == 0 {
			break
		}
		row.Others = append(row.Others, graph.OtherRow{Value: rounded(f.Value), Evidence: more, Rejected: i >= len(s.Others)})
	}
	if len(row.Others) < len(others) {
		row.OthersTotal = len(others)
	}
	return row, len(row.Evidence) > 0, nil
}

func (v *view) mergeRule(label, property string) schema.Merge {
	if spec, ok := v.schema.Property(label, property); ok && spec.Merge != "" {
		return spec.Merge
	}
	return schema.MergeMostSupported
}

// propertyEvidence is where a value is said, at most limit places.
func (v *view) propertyEvidence(f store.PropertyFold, limit int, b *budget) (graph.Sources, error) {
	l := listing{limit: limit, budget: b}
	err := v.sn.PropertySupports(f.Owner, f.Name, f.Value, func(s store.EvidenceSupport) error {
		return v.statements(s, func(d *docView, m merged) error {
			e, err := v.evidence(d, m)
			if err != nil {
				return err
			}
			if !l.add(e) {
				return store.ErrStop
			}
			return nil
		})
	})
	return l.list, err
}

// unique drops repeats and keeps the order.
func unique(list []string) []string {
	seen := make(map[string]bool, len(list))
	out := list[:0]
	for _, s := range list {
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// entityRow is an entity as replies show it: with at most limit mentions, each repeated as evidence with its quote. ok is
// false when not even its head fits, or when the filter leaves it without a mention.
func (v *view) entityRow(e store.EntityFold, limit int, b *budget) (row graph.EntityRow, ok bool, err error) {
	row = graph.EntityRow{ID: e.ID, Kind: "entity", Type: e.Label, Labels: v.labels(e.Label), Name: e.Display(), MergeKey: e.Key,
		Mentions: []graph.MentionRow{}, Evidence: []graph.Evidence{}, MentionsTotal: e.Mentions, DocumentsTotal: e.Documents}
	if row.Homonym, err = v.homonym(e); err != nil {
		return row, false, err
	}
	head := 260 + textCost(row.Name) + textCost(row.MergeKey)
	if row.Homonym != nil {
		head += len(appendJSON(nil, row.Homonym)) + 12
	}
	for _, l := range row.Labels {
		head += len(l) + 3
	}
	if !b.take(head) {
		return row, false, nil
	}
	if err = v.addMentions(&row, limit, b); err != nil {
		return row, false, err
	}
	if err = v.properties(e, &row, limit, b); err != nil {
		return row, false, err
	}
	// An entity that is only an end of relations has no mention of its own, and is a fact all the same.
	return row, v.filter == nil || row.DocumentsTotal > 0, nil
}

// addMentions lists mentions; under a filter it counts the admitted ones too.
func (v *view) addMentions(row *graph.EntityRow, limit int, b *budget) error {
	docs, mentions := 0, 0
	full := false
	err := v.sn.Mentions(row.ID, "", func(s store.MentionSupport) error {
		if err := v.tick(); err != nil {
			return err
		}
		if ok, err := v.admits(s.DocID); err != nil || !ok {
			return err
		}
		docs++
		mentions += len(s.Spans)
		if full || len(row.Mentions) >= limit {
			if v.filter == nil {
				return store.ErrStop
			}
			return nil
		}
		d, err := v.at(s.DocID, s.Version)
		if err != nil {
			return err
		}
		for _, m := range s.Spans {
			e, err := v.evidence(d, merged{m.Chunk, m.Start, m.End, m.Confidence, explicit, []string{m.Extractor}})
			if err != nil {
				return err
			}
			if full = len(row.Mentions) >= limit || !b.take(2*evidenceCost(e)); full {
				break
			}
			row.Evidence = append(row.Evidence, e)
			row.Mentions = append(row.Mentions, graph.MentionRow{Chunk: e.Chunk, Confidence: e.Confidence, Document: e.Document,
				Start: e.Start, End: e.End, Quote: e.Quote})
		}
		return nil
	})
	if v.filter != nil {
		row.DocumentsTotal, row.MentionsTotal = docs, mentions
	}
	return err
}
