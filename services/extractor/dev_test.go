package extractor_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/schema"
	"github.com/factmill/factmill/services/extractor"
)

type devEntity struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

type devRelation struct {
	Type   string `json:"type"`
	Source string `json:"source"`
	Target string `json:"target"`
}

// devItem is one text of the development set with everything that it states. The rules are tuned on these texts and on no others;
// what they are worth elsewhere is measured on the gold set (make eval).
type devItem struct {
	ID        string        `json:"id"`
	Text      string        `json:"text"`
	Entities  []devEntity   `json:"entities"`
	Relations []devRelation `json:"relations"`
}

// tally counts what was found, what was there and what was both.
type tally struct{ right, found, gold int }

func (c tally) precision() float64 { return float64(c.right) / float64(max(c.found, 1)) }
func (c tally) recall() float64    { return float64(c.right) / float64(max(c.gold, 1)) }

// TestDevelopmentSet holds the rules to what they reach on the development set. It prints the table with -v.
func TestDevelopmentSet(t *testing.T) {
	score, items := scoreDev(t, "long", "trade", "work", "world")
	require.Equal(t, devItems, items)
	for label, floor := range map[string][2]float64{ // precision, recall
		"Person": {0.97, 0.96}, "Organization": {0.97, 0.90}, "Location": {0.96, 0.88}, "Event": {0.97, 0.92}, "Software": {0.95, 0.70},
		"Product": {0.95, 0.63}, "Publication": {0.80, 0.64}, "Project": {0.80, 0.90}, "Dataset": {0.95, 0.50},
		"WORKS_FOR": {0.93, 0.84}, "LOCATED_IN": {0.95, 0.84}, "OWNS": {0.95, 0.72}, "AUTHORED": {0.95, 0.64}, "PARTICIPATED_IN": {0.95, 0.72},
		"PART_OF": {0.93, 0.75}, "SUPPLIES": {0.95, 0.82}, "DEPENDS_ON": {0.95, 0.68}, "entities": {0.97, 0.87}, "relations": {0.96, 0.77},
	} {
		c := score[label]
		require.NotNil(t, c, label)
		require.GreaterOrEqual(t, c.precision(), floor[0], "precision of %s: %+v", label, *c)
		require.GreaterOrEqual(t, c.recall(), floor[1], "recall of %s: %+v", label, *c)
	}
	labels := make([]string, 0, len(score))
	for label := range score {
		labels = append(labels, label)
	}
	slices.Sort(labels)
	for _, label := range labels {
		c := score[label]
		t.Log(fmt.Sprintf("%-16s gold %4d found %4d right %4d  P %.3f  R %.3f", label, c.gold, c.found, c.right, c.precision(), c.recall()))
	}
}

const devItems = 354 // texts

// TestLaterDevelopmentSets are texts that the rules did not grow up with: harder, and read less well.
func TestLaterDevelopmentSets(t *testing.T) {
	for name, floor := range map[string][4]float64{ // precision and recall of entities, of relations
		"more": {0.92, 0.84, 0.95, 0.76}, "take": {0.88, 0.79, 0.90, 0.68}, "across": {0.93, 0.80, 0.89, 0.38},
		"wider": {0.97, 0.92, 0.93, 0.84},
	} {
		score, _ := scoreDev(t, name)
		e, r := score["entities"], score["relations"]
		require.GreaterOrEqual(t, e.precision(), floor[0], "%s: %+v", name, *e)
		require.GreaterOrEqual(t, e.recall(), floor[1], "%s: %+v", name, *e)
		require.GreaterOrEqual(t, r.precision(), floor[2], "%s: %+v", name, *r)
		require.GreaterOrEqual(t, r.recall(), floor[3], "%s: %+v", name, *r)
	}
}

// scoreDev reads sets of the development set and counts.
func scoreDev(t *testing.T, names ...string) (score map[string]*tally, items int) {
	t.Helper()
	score = map[string]*tally{}
	st := stage(t, schema.Default())
	for _, name := range names {
		for _, it := range readDev(t, "testdata/dev/"+name+".jsonl") {
			items++
			entities, relations := facts(t, st, it.Text)
			compareDev(score, "entities", it.Entities, entities, func(e devEntity) string { return e.Type })
			compareDev(score, "relations", it.Relations, relations, func(r devRelation) string { return r.Type })
		}
	}
	return score, items
}

func readDev(t testing.TB, file string) []devItem {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	var out []devItem
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var it devItem
		require.NoError(t, json.Unmarshal(sc.Bytes(), &it), file)
		out = append(out, it)
	}
	require.NoError(t, sc.Err())
	return out
}

// facts reads a text and returns what became facts, each once. A short form counts as the name it is of.
func facts(t *testing.T, st *extractor.Stage, text string) ([]devEntity, []devRelation) {
	t.Helper()
	var entities []devEntity
	var relations []devRelation
	name := func(e graph.EntityItem) string {
		if e.Of != "" {
			return e.Of
		}
		return e.Name
	}
	for _, c := range handle(t, st, chunked(schema.Default(), fingerprint.Normalize(text))).Extraction.Chunks {
		for _, e := range c.Entities {
			entities = append(entities, devEntity{e.Type, name(e)})
		}
		for _, r := range c.Relations {
			relations = append(relations, devRelation{r.Type, name(c.Entities[r.Source]), name(c.Entities[r.Target])})
		}
	}
	return entities, relations
}

func compareDev[T comparable](score map[string]*tally, all string, gold, found []T, label func(T) string) {
	count := func(l string) *tally {
		if score[l] == nil {
			score[l] = &tally{}
		}
		return score[l]
	}
	seen := map[T]bool{}
	for _, x := range found {
		if seen[x] {
			continue
		}
		seen[x] = true
		for _, l := range []string{label(x), all} {
			count(l).found++
			if slices.Contains(gold, x) {
				count(l).right++
			}
		}
	}
	for _, x := range gold {
		count(label(x)).gold++
		count(all).gold++
	}
}
