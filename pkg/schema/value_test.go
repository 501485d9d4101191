package schema

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseValue(t *testing.T) {
	for _, c := range []struct {
		t    Type
		in   any
		want any
	}{
		{TypeString, " Ada ", "Ada"}, {TypeString, 12, "12"}, {TypeString, json.Number("1.50"), "1.50"}, {TypeString, true, "true"}, {TypeString, 1.5, "1.5"},
		{TypeInteger, 1990, int64(1990)}, {TypeInteger, "1990", int64(1990)}, {TypeInteger, 1990.0, int64(1990)}, {TypeInteger, json.Number("1e3"), int64(1000)},
		{TypeInteger, "-12,500", int64(-12500)}, {TypeInteger, "+7", int64(7)}, {TypeInteger, int64(math.MaxInt64), int64(math.MaxInt64)}, {TypeInteger, "9.0", int64(9)},
		{TypeFloat, "1.5", 1.5}, {TypeFloat, "1,234.5", 1234.5}, {TypeFloat, 3, 3.0}, {TypeFloat, "-0", 0.0}, {TypeFloat, ".5", 0.5}, {TypeFloat, "1e-3", 0.001},
		{TypeBoolean, true, true}, {TypeBoolean, "Yes", true}, {TypeBoolean, "FALSE", false}, {TypeBoolean, "no", false},
		{TypeDate, "1815", "1815"}, {TypeDate, 1815, "1815"}, {TypeDate, 1815.0, "1815"}, {TypeDate, "1815-12", "1815-12"}, {TypeDate, " 1815-12-10 ", "1815-12-10"},
		{TypeDate, "2024-02-29T10:00:00+02:00", "2024-02-29T10:00:00+02:00"}, {TypeDate, "2024-02-29T10:00:00.500Z", "2024-02-29T10:00:00.5Z"},
	} {
		got, err := ParseValue(Property{Name: "p", Type: c.t}, c.in)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.want, got, "%+v", c)
	}
	for _, c := range []struct {
		t  Type
		in any
	}{
		{TypeString, nil}, {TypeString, ""}, {TypeString, "  "}, {TypeString, []any{1}}, {TypeString, map[string]any{"a": []any{1}}}, {TypeString, math.NaN()},
		{TypeInteger, "about 1990"}, {TypeInteger, 1990.5}, {TypeInteger, "1,2"}, {TypeInteger, true}, {TypeInteger, "9223372036854775808"}, {TypeInteger, "0x10"},
		{TypeInteger, json.Number("1e400")}, {TypeInteger, "1_000"},
		{TypeFloat, "NaN"}, {TypeFloat, "Inf"}, {TypeFloat, math.Inf(1)}, {TypeFloat, "1.2.3"}, {TypeFloat, "1e999"}, {TypeFloat, false}, {TypeFloat, "0x1p4"},
		{TypeBoolean, 1}, {TypeBoolean, "maybe"}, {TypeBoolean, "1"},
		{TypeDate, "2023-02-29"}, {TypeDate, "2024-13"}, {TypeDate, "0000"}, {TypeDate, "12/10/1815"}, {TypeDate, "1815-1-2"}, {TypeDate, 181}, {TypeDate, true},
		{TypeDate, "2024-02-29T10:00:00"}, {TypeDate, "December 1815"},
	} {
		got, err := ParseValue(Property{Name: "p", Type: c.t}, c.in)
		require.ErrorIs(t, err, ErrBadValue, "%+v: %v", c, got)
		require.Nil(t, got)
	}
}

func TestParseValueEnum(t *testing.T) {
	status := Property{Name: "status", Type: TypeString, Enum: []string{"active", "dissolved"}}
	got, err := ParseValue(status, " Active ")
	require.NoError(t, err)
	require.Equal(t, "active", got)
	_, err = ParseValue(status, "dormant")
	require.ErrorIs(t, err, ErrNotInEnum)
	require.EqualError(t, err, `property status: not_in_enum: "dormant" is none of "active, dissolved"`)
	_, err = ParseValue(status, []any{"active"})
	require.ErrorIs(t, err, ErrBadValue)

	size := Property{Name: "size", Type: TypeInteger, Enum: []string{"1", "20"}}
	got, err = ParseValue(size, "20.0")
	require.NoError(t, err)
	require.Equal(t, int64(20), got)
	_, err = ParseValue(size, 2)
	require.ErrorIs(t, err, ErrNotInEnum)

	ratio := Property{Name: "ratio", Type: TypeFloat, Enum: []string{"0.5", "1e+06"}}
	got, err = ParseValue(ratio, json.Number("1000000"))
	require.NoError(t, err)
	require.Equal(t, 1e6, got)

	pair := Property{Name: "pair", Type: TypeString, Enum: []string{"A", "a"}}
	got, err = ParseValue(pair, "a")
	require.NoError(t, err)
	require.Equal(t, "a", got, "the exact value comes before a folded one")
}

// TestValueTextParses shows that the canonical text of a value is a value, and the same one.
func TestValueTextParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		prop := Property{Name: "p", Type: Type(rapid.SampledFrom(types).Draw(t, "type"))}
		raw := rapid.OneOf(
			rapid.Just[any](nil), rapid.String().AsAny(), rapid.Int64().AsAny(), rapid.Float64().AsAny(), rapid.Bool().AsAny(),
			rapid.StringMatching(`[+-]?[0-9]{1,4}([.,-][0-9]{1,3}){0,2}`).AsAny(),
		).Draw(t, "raw")
		value, err := ParseValue(prop, raw)
		if err != nil {
			return
		}
		again, err := ParseValue(prop, ValueText(value))
		if err != nil || again != value {
			t.Fatalf("%#v, %q, %#v, %v", value, ValueText(value), again, err)
		}
	})
}
