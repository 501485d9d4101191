package extractor

import (
	"reflect"
	"sync"

	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/pkg/settings"
	"github.com/factmill/factmill/services/extractor/internal/extract"
	"github.com/factmill/factmill/services/extractor/internal/rules"
)

// plan is what a job's documents are read with.
type plan struct {
	schema      *schema.Schema
	settings    settings.Extractor
	fingerprint string
	extractor   extract.Extractor
}

// maxPlans is how many plans are kept: as many jobs of different schemas or settings may run side by side without cost.
const maxPlans = 16

// plans remembers the plans used last, so that nothing is compiled or hashed twice.
type plans struct {
	mu   sync.Mutex
	list []*plan // last used first; guarded by mu
}

func (p *plans) of(s *schema.Schema, set settings.Pipeline, m *models) (*plan, error) {
	if found := p.find(s, set.Extractor); found != nil {
		return found, nil
	}
	made := &plan{schema: s, settings: set.Extractor, fingerprint: set.ExtractionFingerprint(s)}
	var err error
	if made.extractor, err = m.extractor(s, set.Extractor, made.fingerprint); err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append([]*plan{made}, p.list[:min(len(p.list), maxPlans-1)]...)
	return made, nil
}

func (p *plans) find(s *schema.Schema, set settings.Extractor) *plan {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, k := range p.list {
		if k.schema == s && reflect.DeepEqual(k.settings, set) {
			copy(p.list[1:i+1], p.list[:i])
			p.list[0] = k
			return k
		}
	}
	return nil
}

// newPlan makes the plan of the mode rules.
func newPlan(s *schema.Schema, set settings.Pipeline) *plan {
	return &plan{schema: s, settings: set.Extractor, fingerprint: set.ExtractionFingerprint(s), extractor: rules.New(s)}
}
