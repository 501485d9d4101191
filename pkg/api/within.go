package api

import "strings"

// MaxWithin is how many values each list of Within may have.
const MaxWithin = 1000

// Within limits what a request may see; query.search, entity, neighbors, path, document, documents, entities, relations, evidence, citations and
// relation_types take it. What it does not admit is neither found nor shown nor counted, and is answered like what does not exist. It is looked at as it
// is now, also with as_of and history: a document whose scope was taken away is not admitted as of before either. A list that is empty limits
// nothing; several lists all hold.
type Within struct {
	// Scope admits documents that have one of these scope labels.
	Scope []string `json:"scope,omitempty"`
	// Documents admits documents by key.
	Documents []string `json:"documents,omitempty"`
	// Labels admit entities of these types and of types below them, and relations whose ends are both admitted. Where neither Scope nor Documents
	// is given, running text is not shown at all: no chunk, no text of a document, no surroundings of a quote; the quotes of admitted facts are.
	Labels []string `json:"labels,omitempty"`
}

// Any says whether w limits anything.
func (w *Within) Any() bool {
	return w != nil && len(w.Scope)+len(w.Documents)+len(w.Labels) > 0
}

// ShowsText says whether running text may be shown of the documents that w admits.
func (w *Within) ShowsText() bool {
	return !w.Any() || len(w.Scope)+len(w.Documents) > 0
}

// String says in words what w lets through; empty when that is everything.
func (w *Within) String() string {
	if !w.Any() {
		return ""
	}
	var parts []string
	for _, p := range []struct {
		what string
		list []string
	}{{"scope", w.Scope}, {"documents", w.Documents}, {"labels", w.Labels}} {
		if len(p.list) > 0 {
			parts = append(parts, p.what+" "+strings.Join(p.list, ", "))
		}
	}
	return strings.Join(parts, "; ")
}
