package settings_test

import (
	"flag"
	"reflect"
	"testing"

	"github.com/factmill/factmill/pkg/jsonx/jsontest"
	"github.com/factmill/factmill/pkg/settings"
)

var _ = flag.Bool("rewrite", false, "write the generated files anew")

func TestGeneratedJSON(t *testing.T) {
	jsontest.Generated(t, jsontest.File{Name: "json.go", Exported: true, Types: []reflect.Type{
		jsontest.Of[settings.Pipeline](), jsontest.Of[settings.Chunker](), jsontest.Of[settings.Extractor](), jsontest.Of[settings.Resolver](),
	}})
}

func TestJSON(t *testing.T) {
	jsontest.Codec[settings.Pipeline]{Read: settings.ReadPipeline, Write: settings.AppendPipeline}.Check(t)
}
