package query

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

func TestSchemaProblems(t *testing.T) {
	s, err := schema.Parse([]byte(`
entities:
  Person: {properties: {born: {type: integer, required: true}}}
  Company: {}
relations:
  WORKS_AT: {patterns: ["Person->Company"], cardinality: {max_per_source: 1, max_per_target: 2}}
`), "strict", nil)
	require.NoError(t, err)
	d := newDesk(t)
	d.q.schemas = one{s}
	text := "Ada works at Acme. Ada works at Bolt. Bob works at Acme. Cy works at Acme. Cy was born in 1901."
	doc := newDoc("a", text).say("Person:Ada", "Person:Bob", "Person:Cy", "Company:Acme", "Company:Bolt").
		relate("WORKS_AT", "Person:Ada", "Company:Acme", "Ada works at Acme").
		relate("WORKS_AT", "Person:Ada", "Company:Bolt", "Ada works at Bolt").
		relate("WORKS_AT", "Person:Bob", "Company:Acme", "Bob works at Acme").
		relate("WORKS_AT", "Person:Cy", "Company:Acme", "Cy works at Acme").
		property("Person:Cy", "born", int64(1901), "1901", 0.9)
	d.commit(doc)
	got := map[string]string{}
	require.NoError(t, d.q.SchemaProblems(t.Context(), g, func(p api.Problem) { got[p.Message] = p.Kind }))
	require.Equal(t, map[string]string{
		`Person "Ada" has no born, which is required`:       "required",
		`Person "Bob" has no born, which is required`:       "required",
		`2 relations WORKS_AT from Person "Ada", at most 1`: "cardinality",
		`3 relations WORKS_AT to Company "Acme", at most 2`: "cardinality",
	}, got)
}
