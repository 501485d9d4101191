package graph_test

import (
	"flag"
	"reflect"
	"testing"

	"github.com/factmill/factmill/pkg/graph"
	"github.com/factmill/factmill/pkg/jsonx/jsontest"
)

var _ = flag.Bool("rewrite", false, "write the generated files anew")

func TestGeneratedJSON(t *testing.T) {
	of := []reflect.Type{
		jsontest.Of[graph.Assertions](), jsontest.Of[graph.EntityRef](), jsontest.Of[graph.ChunkAssertions](), jsontest.Of[graph.Mention](),
		jsontest.Of[graph.PropertyA](), jsontest.Of[graph.RelationA](), jsontest.Of[graph.Candidate](),
	}
	read := []reflect.Type{
		jsontest.Of[graph.Extraction](), jsontest.Of[graph.ChunkItems](), jsontest.Of[graph.EntityItem](), jsontest.Of[graph.PropertyItem](),
		jsontest.Of[graph.RelationItem](), jsontest.Of[graph.CandidateItem](), jsontest.Of[graph.Dropped](), jsontest.Of[graph.Failure](),
	}
	doc := []reflect.Type{jsontest.Of[graph.Meta](), jsontest.Of[graph.Chunk](), jsontest.Of[graph.Order]()}
	jsontest.Generated(t, jsontest.File{Name: "json_assertions.go", Types: of, Exported: true})
	jsontest.Generated(t, jsontest.File{Name: "json_extraction.go", Types: read, Exported: true})
	jsontest.Generated(t, jsontest.File{Name: "json_document.go", Types: doc, Own: []reflect.Type{jsontest.Of[graph.Scope]()}, Exported: true})
}

// Every type is read and written as encoding/json does it, and without it.
func TestJSON(t *testing.T) {
	t.Run("assertions", jsontest.Codec[graph.Assertions]{Read: graph.ReadAssertions, Write: graph.AppendAssertions}.Check)
	t.Run("extraction", jsontest.Codec[graph.Extraction]{Read: graph.ReadExtraction, Write: graph.AppendExtraction}.Check)
	t.Run("meta", jsontest.Codec[graph.Meta]{Read: graph.ReadMeta, Write: graph.AppendMeta}.Check)
	t.Run("chunk", jsontest.Codec[graph.Chunk]{Read: graph.ReadChunk, Write: graph.AppendChunk}.Check)
	t.Run("order", jsontest.Codec[graph.Order]{Read: graph.ReadOrder, Write: graph.AppendOrder}.Check)
}

func FuzzAssertionsJSON(f *testing.F) {
	jsontest.Codec[graph.Assertions]{Read: graph.ReadAssertions, Write: graph.AppendAssertions}.Fuzz(f, &graph.Assertions{
		Chunks: []graph.ChunkAssertions{{Mentions: []graph.Mention{{Name: "Ada", Confidence: 0.9}}}}})
}

func FuzzMetaJSON(f *testing.F) {
	jsontest.Codec[graph.Meta]{Read: graph.ReadMeta, Write: graph.AppendMeta}.Fuzz(f, &graph.Meta{Scope: graph.Scope{"a"}, Metadata: map[string]any{"x": []any{1.5, nil}}})
}
