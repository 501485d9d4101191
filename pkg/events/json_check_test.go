package events

import (
	"testing"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/jsonx/jsontest"
	"github.com/factmill/factmill/pkg/settings"
)

var (
	foundJSON     = jsontest.Codec[Found]{Read: readFound, Write: appendFound}
	loadedJSON    = jsontest.Codec[Loaded]{Read: readLoaded, Write: appendLoaded}
	chunkedJSON   = jsontest.Codec[Chunked]{Read: readChunked, Write: appendChunked}
	stagedJSON    = jsontest.Codec[Staged]{Read: readStaged, Write: appendStaged}
	extractedJSON = jsontest.Codec[Extracted]{Read: readExtracted, Write: appendExtracted}
	resolvedJSON  = jsontest.Codec[Resolved]{Read: readResolved, Write: appendResolved}
	endedJSON     = jsontest.Codec[Ended]{Read: readEnded, Write: appendEnded}
)

// The hot events are read and written as encoding/json does it, and without it.
func TestJSON(t *testing.T) {
	t.Run("found", foundJSON.Check)
	t.Run("loaded", loadedJSON.Check)
	t.Run("chunked", chunkedJSON.Check)
	t.Run("staged", stagedJSON.Check)
	t.Run("extracted", extractedJSON.Check)
	t.Run("resolved", resolvedJSON.Check)
	t.Run("ended", endedJSON.Check)
}

func fuzzJob() Job {
	return Job{Graph: "default", ID: "j42", Attempt: 1, Op: OpAdd, Settings: settings.Default(), At: graph.Order{Time: 1700000000000000000, Seq: 42}}
}

func FuzzFoundJSON(f *testing.F) {
	foundJSON.Fuzz(f, &Found{Job: fuzzJob(), Source: Source{Token: "t", Data: []byte("data"), Meta: &InputDocument{Key: "a", Metadata: map[string]any{"n": 1.5}}}})
}

func FuzzLoadedJSON(f *testing.F) {
	loadedJSON.Fuzz(f, &Loaded{Job: fuzzJob(), Meta: graph.Meta{Key: "a", Scope: graph.Scope{"x", "y"}}, Decision: graph.NewVersion, Text: "Ada\n<b>é"})
}

func FuzzStagedJSON(f *testing.F) {
	stagedJSON.Fuzz(f, &Staged{Job: fuzzJob(), Chunks: []graph.Chunk{{End: 3, Heading: []string{"Lives"}, Content: "text"}}})
}

func FuzzExtractedJSON(f *testing.F) {
	extractedJSON.Fuzz(f, &Extracted{Job: fuzzJob(), Extraction: graph.Extraction{Chunks: []graph.ChunkItems{{
		Entities:  []graph.EntityItem{{Type: "Person", Name: "Ada", Confidence: 0.95, Properties: []graph.PropertyItem{{Name: "age", Value: 36}}}},
		Relations: []graph.RelationItem{{Type: "WORKS_FOR", Target: 1, Confidence: 1e-7}}, Failure: &graph.Failure{Code: "x"},
	}}}})
}

func FuzzResolvedJSON(f *testing.F) {
	resolvedJSON.Fuzz(f, &Resolved{Job: fuzzJob(), Assertions: graph.Assertions{
		Entities:   []graph.EntityRef{{ID: "e1", Label: "Person", Key: "ada"}},
		Chunks:     []graph.ChunkAssertions{{Relations: []graph.RelationA{{Type: "WORKS_FOR", Properties: map[string]any{"since": 1999.0}}}}},
		Candidates: []graph.Candidate{{Key: "k", Reasons: []string{"r"}, More: [][3]int{{1, 2, 3}}}},
	}, Escalation: &EscalationStats{Mode: "hybrid"}})
}
