package events_test

import (
	"reflect"
	"testing"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/jsonx/jsontest"
)

func TestGeneratedJSON(t *testing.T) {
	stages := []reflect.Type{
		jsontest.Of[events.Found](), jsontest.Of[events.Loaded](), jsontest.Of[events.Chunked](), jsontest.Of[events.Staged](),
		jsontest.Of[events.Extracted](), jsontest.Of[events.Resolved](), jsontest.Of[events.Ended](),
	}
	parts := []reflect.Type{
		jsontest.Of[events.Job](), jsontest.Of[events.DocRef](), jsontest.Of[events.Source](), jsontest.Of[events.InputDocument](),
	}
	stats := []reflect.Type{
		jsontest.Of[events.ExtractionStats](), jsontest.Of[events.EscalationStats](), jsontest.Of[events.ResolutionStats](),
	}
	jsontest.Generated(t, jsontest.File{Name: "json_stages.go", Types: stages, Own: append(stats, parts...)})
	jsontest.Generated(t, jsontest.File{Name: "json_parts.go", Types: parts})
	jsontest.Generated(t, jsontest.File{Name: "json_stats.go", Types: stats})
}
