package query

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const maxFilter = 1000 // values of one filter

// filter admits documents. What it does not admit is neither found nor shown nor counted: not its chunks, not its mentions, not
// its property values.
type filter struct {
	docs     map[string]bool // document ids; nil: any
	scope    []string
	metadata map[string][]byte // canonical JSON
	// since and until are the first and last moment that a date may cover; zero: any.
	since, until time.Time
	memo         map[string]bool
}

// newFilter reads the filters that concern documents; nil when there are none.
func newFilter(f api.Filters) (*filter, *api.Error) {
	if max(len(f.Labels), len(f.RelationTypes), len(f.Documents), len(f.Scope), len(f.Metadata)) > maxFilter {
		return nil, badValue("filters has more than %d values of one kind", maxFilter)
	}
	if slices.Contains(f.RelationTypes, "") {
		return nil, badValue("filters.relation_types has an empty type")
	}
	if len(f.Documents) == 0 && len(f.Scope) == 0 && len(f.Metadata) == 0 && f.Since == "" && f.Until == "" {
		return nil, nil
	}
	out := &filter{scope: f.Scope, memo: map[string]bool{}}
	if bad := out.dates(f); bad != nil {
		return nil, bad
	}
	if len(f.Documents) > 0 {
		out.docs = map[string]bool{}
		for _, k := range f.Documents {
			out.docs[fingerprint.DocumentID(k)] = true
		}
	}
	if len(f.Metadata) > 0 {
		out.metadata = map[string][]byte{}
		for k, want := range f.Metadata {
			b, err := fingerprint.Canonical(want)
			if err != nil {
				return nil, badValue("filters.metadata.%s has no JSON form", clip(k))
			}
			out.metadata[k] = b
		}
	}
	return out, nil
}

// admits says whether the request's filter lets a document through. Any scope label of the filter is enough; every metadata
// value must be equal, or stand in a list.
func (v *view) admits(docID string) (bool, error) {
	f := v.filter
	if f == nil {
		return true, nil
	}
	if ok, known := f.memo[docID]; known {
		return ok, nil
	}
	if f.docs != nil && !f.docs[docID] {
		return false, nil
	}
	d, err := v.doc(docID)
	if err != nil {
		return false, err
	}
	if len(f.memo) >= 1<<18 {
		clear(f.memo)
	}
	ok := f.matches(d)
	f.memo[docID] = ok
	return ok, nil
}

func (f *filter) matches(d store.Doc) bool {
	if len(f.scope) > 0 && !slices.ContainsFunc(d.Meta.Scope, func(s string) bool { return slices.Contains(f.scope, s) }) {
		return false
	}
	if !f.dated(d.Date()) {
		return false
	}
	for k, want := range f.metadata {
		got, ok := d.Meta.Metadata[k]
		if !ok || !equalJSON(got, want) {
			return false
		}
	}
	return true
}

func equalJSON(got any, want []byte) bool {
	if b, err := fingerprint.Canonical(got); err == nil && string(b) == string(want) {
		return true
	}
	list, ok := got.([]any)
	return ok && slices.ContainsFunc(list, func(x any) bool {
		b, err := fingerprint.Canonical(x)
		return err == nil && string(b) == string(want)
	})
}

// sizeOf is how long a value is in JSON.
func sizeOf(x any) int {
	b, err := json.Marshal(x)
	if err != nil {
		return 0
	}
	return len(b)
}
