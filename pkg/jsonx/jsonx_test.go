package jsonx

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// probe has a field of each kind.
type probe struct {
	S  string         `json:"s"`
	I  int            `json:"i"`
	L  int64          `json:"l"`
	U  uint64         `json:"u"`
	F  float64        `json:"f"`
	B  bool           `json:"b"`
	D  []byte         `json:"d"`
	SS []string       `json:"ss"`
	M  map[string]any `json:"m"`
	A  any            `json:"a"`
	T  [][3]int       `json:"t"`
	P  []probe        `json:"p"`
}

func readProbe(r *Reader, v *probe) {
	var seen uint64
	for k := r.Object(); k != nil; k = r.Next() {
		switch string(k) {
		case "s":
			r.Once(&seen, 1)
			v.S = r.String()
		case "i":
			v.I = r.Int()
		case "l":
			v.L = r.Int64()
		case "u":
			v.U = r.Uint64()
		case "f":
			v.F = r.Float64()
		case "b":
			v.B = r.Bool()
		case "d":
			v.D = r.Bytes()
		case "ss":
			v.SS = r.Strings()
		case "m":
			v.M = r.Map()
		case "a":
			v.A = r.Any()
		case "t":
			v.T = ReadSlice(r, (*Reader).Triple)
		case "p":
			v.P = ReadSlice(r, readProbe)
		default:
			r.Skip(k)
		}
	}
}

// What is taken is what encoding/json takes, with its value; what is not is left to it, whether it is valid or not.
func TestReadTakes(t *testing.T) {
	for _, s := range []string{
		`{}`, `null`, " \t\r\n{ \"s\" : \"x\" , \"i\" : -1 }\n", `{"s":null,"i":null,"l":null,"u":null,"f":null,"b":null,"d":null,"ss":null,"m":null,"a":null,"t":null,"p":null}`,
		`{"s":"","d":"","ss":[],"m":{},"t":[],"p":[]}`, `{"s":"\"\\\/\b\f\n\r\t\u00e9\u20AC\u2028"}`, `{"s":"é日本😀 and more than eight"}`,
		`{"i":0}`, `{"i":-0}`, `{"l":9223372036854775807}`, `{"l":-9223372036854775807}`, `{"u":9999999999999999999}`, `{"u":0}`,
		`{"f":0}`, `{"f":-0.0}`, `{"f":1e5}`, `{"f":1E+5}`, `{"f":-1.25e-7}`, `{"f":123456789012345678901234567890}`, `{"f":5e-324}`, `{"f":1e-999}`,
		`{"b":true}`, `{"b":false}`, `{"d":"aGk="}`, `{"d":"aG\nk="}`, `{"ss":["a",null,"b"]}`, `{"p":[null,{"s":"x"},{}]}`, `{"t":[[1,2,3],null]}`,
		`{"a":[1,"x",null,true,{"y":[]},[]],"m":{"x":1,"x":2,"é":{}}}`, `{"later":{"x":[1,-2.5e3,"\u0041",null,true,false,{}]},"s":"x"}`, `{"":1,"_":2}`,
		`{"a":` + strings.Repeat("[", maxDepth-2) + strings.Repeat("]", maxDepth-2) + `}`,
	} {
		t.Run(s[:min(len(s), 40)], func(t *testing.T) { require.True(t, same(t, s), s) })
	}
}

func TestReadLeaves(t *testing.T) {
	deep := strings.Repeat("[", maxDepth+5) + strings.Repeat("]", maxDepth+5)
	for _, s := range []string{
		// valid
		`{"s":"a","s":"b"}`, `{"S":"a"}`, `{"later":1,"Later":2}`, `{"\u0073":"x"}`, `{"ſ":"x"}`, "{\"s\":\"\xff\"}", "{\"s\":\"\xff\\n\"}", "{\"ss\":[\"a\xc3\"]}", `{"s":"\ud83d\ude00"}`,
		`{"s":"\ud800"}`, `{"l":-9223372036854775808}`, `{"u":18446744073709551615}`, `{"t":[[1,2]]}`, `{"t":[[1,2,3,4]]}`, `{"d":[1,2]}`, `{"a":` + deep + `}`, `{"x":` + deep + `}`,
		"{\"x\":\"\xff\"}",
		// refused
		``, ` `, `{`, `}`, `{}}`, `{} x`, "{}\x00", "\x00", `[]`, `"s"`, `1`, `nul`, `{"s"}`, `{"s":}`, `{"s":"x",}`, `{,}`, `{"s":"x" "i":1}`, `{s:1}`, `{null:1}`, `{"m":{null:1}}`,
		`{"m":{,}}`, `{"m":{"a":1,}}`, `{"m":{"a" 1}}`, `{"m":[]}`, `{"m":{"a":1]}`, `{"s":1}`, `{"s":"x`, `{"s":"\`, `{"s":"\u12`, `{"s":"\u12g4"}`, `{"s":"\x"}`, `{"s":"\'"}`, "{\"s\":\"\n\"}", "{\"s\":\"12345678\x1f\"}",
		`{"i":1.0}`, `{"i":1e2}`, `{"i":01}`, `{"i":-}`, `{"i":+1}`, `{"i":"1"}`, `{"i":1x}`, `{"i":9223372036854775808}`, `{"i":99999999999999999999}`, `{"u":-1}`, `{"u":-0}`,
		`{"f":.5}`, `{"f":1.}`, `{"f":1e}`, `{"f":1e+}`, `{"f":01}`, `{"f":-}`, `{"f":1e999}`, `{"f":NaN}`, `{"f":"1"}`, `{"f":0x1}`, `{"f":1_0}`, `{"f":Infinity}`, `{"b":1}`, `{"b":tru}`, `{"b":"true"}`,
		`{"d":"a"}`, `{"d":"a!=="}`, `{"ss":"a"}`, `{"ss":["a",]}`, `{"ss":[,]}`, `{"ss":["a"`, `{"ss":[`, `{"p":[`, `{"p":[{`, `{"p":{}}`, `{"a":}`, `{"a":[1,]}`, `{"a":1e999}`, `{"a":tru}`, `{"x":tru}`,
		`{"x":[1,]}`, `{"x":{"a":1,}}`, `{"x":01}`, `{"x":"\u00"}`, "{\"x\":\"\x01\"}", `{"t":[[1,2,"3"]]}`, `{"t":[1]}`,
	} {
		t.Run(s[:min(len(s), 40)], func(t *testing.T) { require.False(t, same(t, s), s) })
	}
}

// same checks that s is read as encoding/json reads it, and says whether it was without that.
func same(t *testing.T, s string) bool {
	t.Helper()
	var want, got, all probe
	err := json.Unmarshal([]byte(s), &want)
	ok := Read([]byte(s), &got, Floats, readProbe)
	if ok {
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, math.Signbit(want.F), math.Signbit(got.F))
	}
	require.Equal(t, err, Unmarshal([]byte(s), &all, readProbe))
	require.Equal(t, want, all)
	return ok
}

// What was read does not change when the input does, or when the reader reads on.
func TestReadKeepsNothing(t *testing.T) {
	b := []byte(`{"s":"Ada\nLovelace","ss":["short","` + strings.Repeat("long", 30) + `"],"m":{"key":"value"},"d":"aGk="}`)
	var v, want probe
	require.NoError(t, json.Unmarshal(b, &want))
	require.True(t, Read(b, &v, Floats, readProbe))
	for i := range b {
		b[i] = 'x'
	}
	for i := range 1000 {
		var other probe
		require.True(t, Read([]byte(`{"s":"other\n`+strconv.Itoa(i)+`","ss":["shor`+strconv.Itoa(i)+`"]}`), &other, Floats, readProbe))
		require.Equal(t, "shor"+strconv.Itoa(i), other.SS[0])
	}
	require.Equal(t, want, v)
}

// A body of braces does not set aside much more than it is long.
func TestReadSetsLittleAside(t *testing.T) {
	b := []byte(`{"p":[{"s":"` + strings.Repeat("},", 1<<20) + `"}]}`)
	n := testing.Benchmark(func(bm *testing.B) {
		bm.ReportAllocs()
		for bm.Loop() {
			var v probe
			require.True(bm, Read(b, &v, Floats, readProbe))
		}
	}).AllocedBytesPerOp()
	require.Less(t, n, int64(len(b))*(int64(reflect.TypeFor[probe]().Size())/32+3))
}

func written(t *testing.T, v any) {
	t.Helper()
	want, err := json.Marshal(v)
	require.NoError(t, err)
	got, ok := Write(&v, func(w *Writer, v *any) {
		switch x := (*v).(type) {
		case float64:
			w.Float64(x)
		case string:
			w.String(x)
		default:
			w.Any(x)
		}
	})
	require.True(t, ok)
	require.Equal(t, string(want), string(got))
}

func TestWriteFloats(t *testing.T) {
	seed := uint64(1)
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, seed))
	for _, f := range []float64{0, math.Copysign(0, -1), 1, 0.1, 0.3, 0.1 + 0.2, 1e-6, 9.999999e-7, 1.0000001e-6, 1e-9, 1e-10, 1e20, 9.99e20, 1e21, 1e100, 1e-100, 5e-324,
		math.MaxFloat64, 999999.999999, 999999.9999999, 1e6, 1000000.5, 123456.654321, 0.000001, 0.000002, 0.0000019, math.Nextafter(0.5, 1), math.Nextafter(1e6, 0)} {
		written(t, f)
		written(t, -f)
	}
	for range 200_000 {
		var f float64
		switch rnd.IntN(4) {
		case 0:
			f = float64(rnd.IntN(1e6)) / 1e6
		case 1:
			f = float64(rnd.Int64N(1e12)) / 1e6
		case 2:
			f = math.Nextafter(float64(rnd.Int64N(1e12))/1e6, float64(rnd.IntN(2)))
		default:
			if f = math.Float64frombits(rnd.Uint64()); math.IsNaN(f) || math.IsInf(f, 0) {
				continue
			}
		}
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := Write(&f, func(w *Writer, f *float64) { w.Float64(*f) }); !ok || string(got) != string(b) {
			t.Fatalf("%s, not %s", got, b)
		}
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		_, ok := Write(&f, func(w *Writer, f *float64) { w.Float64(*f) })
		require.False(t, ok)
		_, err := Marshal(&f, func(w *Writer, f *float64) { w.Float64(*f) })
		require.ErrorContains(t, err, "unsupported value")
	}
}

func TestWriteInts(t *testing.T) {
	for _, n := range []int64{0, 1, 9, 10, 99, 100, 101, 999, 1000, 1001, 9999, 10000, 123456, math.MaxInt64} {
		written(t, n)
		written(t, -n)
	}
	written(t, int64(math.MinInt64))
	n := uint64(math.MaxUint64)
	b, ok := Write(&n, func(w *Writer, n *uint64) { w.Uint64(*n) })
	require.True(t, ok)
	require.Equal(t, "18446744073709551615", string(b))
	for n := range 20_000 {
		b, ok := Write(&n, func(w *Writer, n *int) { w.Int(*n) })
		if !ok || string(b) != strconv.Itoa(n) {
			t.Fatalf("%s, not %d", b, n)
		}
	}
}

// Each character, and each byte, at each place of a word.
func TestStrings(t *testing.T) {
	check := func(s string) {
		t.Helper()
		want, err := json.Marshal(s)
		require.NoError(t, err)
		got, ok := Write(&s, func(w *Writer, s *string) { w.String(*s) })
		if !ok || string(got) != string(want) {
			t.Fatalf("%q: %s, not %s", s, got, want)
		}
		var back string
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		var p probe
		if !Read([]byte(`{"s":`+string(got)+`}`), &p, Floats, readProbe) || p.S != back {
			t.Fatalf("%s: %q, not %q", got, p.S, back)
		}
	}
	for c := range 256 {
		for at := range 18 {
			b := []byte("0123456789abcdefgh")
			b[at] = byte(c)
			check(string(b))
			check(string(b[:at+1]))
		}
	}
	for u := rune(0); u <= 0x2fff; u++ {
		check("x" + string(u) + "yz")
	}
	for _, u := range []rune{0xd7ff, 0xe000, 0xfffd, 0xfffe, 0xffff, 0x10000, utf8.MaxRune} {
		check("1234567" + string(u))
	}
	check(strings.Repeat(strings.Repeat("word ", 12)+"\n", 5000))
	check(strings.Repeat("\x00", 10_000))
}

// Raw bytes of a string, valid or not, at each place of a word.
func TestReadRawBytes(t *testing.T) {
	for c := range 256 {
		for at := range 18 {
			b := []byte("0123456789abcdefgh")
			b[at] = byte(c)
			same(t, `{"s":"`+string(b)+`","ss":["`+string(b[:at+1])+`"]}`)
			same(t, `{"`+string(b)+`":1}`)
		}
	}
}

type odd struct{}

func (odd) MarshalJSON() ([]byte, error) { return nil, fmt.Errorf("no") }

func TestWriteAny(t *testing.T) {
	written(t, map[string]any{"b": []any{1, int64(2), 2.5, "x", nil, true, []any(nil), map[string]any(nil), []any{}}, "a": map[string]any{"é<": 1}, "\xff": 1,
		"c": 1, "d": 1, "e": 1, "f": 1, "g": 1, "h": 1, "i": []string{"a"}, "j": json.Number("1.50"), "k": struct{ X int }{7}, "l": float32(0.1)})
	for _, v := range []any{odd{}, func() {}, math.NaN(), json.Number("1x")} {
		_, ok := Write(&v, func(w *Writer, v *any) { w.Any(*v) })
		require.False(t, ok)
		_, err := Marshal(&v, func(w *Writer, v *any) { w.Any(*v) })
		require.Error(t, err)
	}
	round := []any{nil}
	round[0] = round
	var v any = round
	_, ok := Write(&v, func(w *Writer, v *any) { w.Any(*v) })
	require.False(t, ok)
}

// What is larger than maxWritten is left to encoding/json, and the buffer does not grow with it.
func TestWriteLeavesTheLargest(t *testing.T) {
	part := strings.Repeat("x", 1<<20)
	list := make([]string, 80)
	for i := range list {
		list[i] = part
	}
	write := func(w *Writer, v *[]string) {
		w.Raw("{")
		for _, s := range *v {
			w.Field(`"a":`)
			w.String(s)
			require.Less(t, len(w.b), 3*maxWritten)
		}
		w.Raw("}")
	}
	_, ok := Write(&list, write)
	require.False(t, ok)
	few := list[:8]
	b, ok := Write(&few, write)
	require.True(t, ok)
	require.Len(t, b, 8*(1<<20+2+4)+2+7)
}
