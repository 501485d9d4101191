package store

import (
	"reflect"
	"testing"

	"github.com/factmill/factmill/pkg/jsonx/jsontest"
)

var statedJSON = jsontest.Codec[Stated]{Read: readStated, Write: appendStated, Rare: func(st *Stated) bool { return len(st.Kept) > 0 }}

// What a version states is read and written as encoding/json does it; what is kept is left to that.
func TestStatedJSON(t *testing.T) {
	t.Run("generated", func(t *testing.T) {
		jsontest.Generated(t, jsontest.File{Name: "stated_json.go", Types: []reflect.Type{jsontest.Of[Stated]()}, Rare: []string{"kept"}})
	})
	t.Run("check", statedJSON.Check)
}

func FuzzStatedJSON(f *testing.F) { statedJSON.Fuzz(f, &Stated{Decided: []string{"a"}, Revision: 7}) }
