package query

import (
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/services/committer/internal/lexical"
)

const (
	maxAliasWords  = 4  // of an alias within a query
	maxAliasPlaces = 16 // words of a query at which an alias may begin
	maxAliasLabels = 50 // labels of the registry that are asked
)

// Aliases are names that were declared, not found in documents; registry.Registry has them.
type Aliases interface {
	// Labels are those that have entries.
	Labels(graph string) ([]string, error)
	// Named returns the entries of a label that have a folded name as name or alias.
	Named(graph, label, key string) ([]api.RegistryEntry, error)
}

// WithAliases lets searches find entities by declared aliases. It is called before the first query.
func (q *Queries) WithAliases(a Aliases) *Queries {
	q.aliases = a
	return q
}

// called raises the entities of the graph that the registry calls what the query, or up to maxAliasWords of its words in a row, says. The registry
// is that of now, whatever the sequence.
func (s *search) called(best map[string]float64) error {
	if s.aliases == nil {
		return nil
	}
	all, err := s.aliases.Labels(s.v.sn.Graph())
	if err != nil {
		return err
	}
	var labels []string
	for _, l := range all {
		if s.admitsLabel(l) && len(labels) < maxAliasLabels {
			labels = append(labels, l)
		}
	}
	if len(labels) == 0 {
		return nil
	}
	folded := fingerprint.Fold(s.q)
	if err := s.alias(labels, folded, 1.8, best); err != nil {
		return err
	}
	words := strings.Fields(folded)
	for i := range words[:min(len(words), maxAliasPlaces)] {
		for n := 1; n <= maxAliasWords && i+n <= len(words); n++ {
			part := strings.Trim(strings.Join(words[i:i+n], " "), `?!,;:"'()[] `)
			share := s.shareOf(part)
			if share == 0 {
				continue
			}
			for _, name := range []string{part, strings.TrimRight(part, ".")} {
				if name == folded {
					break
				}
				if err := s.alias(labels, name, 0.95*share, best); err != nil {
					return err
				}
				if !strings.HasSuffix(part, ".") {
					break
				}
			}
		}
	}
	return nil
}

// shareOf is the part of the query's weight that a part of it has; words of grammar have none.
func (s *search) shareOf(part string) float64 {
	sum := 0.0
	for _, t := range lexical.QueryTerms(part, maxQueryTerms) {
		sum += s.names[t]
	}
	if s.namesTotal == 0 {
		return 0
	}
	return sum / s.namesTotal
}

func (s *search) alias(labels []string, name string, score float64, best map[string]float64) error {
	for _, l := range labels {
		if err := s.v.tick(); err != nil {
			return err
		}
		entries, err := s.aliases.Named(s.v.sn.Graph(), l, name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			id := fingerprint.EntityID(l, fingerprint.Fold(e.Name))
			best[id] = max(best[id], score)
		}
	}
	return nil
}
