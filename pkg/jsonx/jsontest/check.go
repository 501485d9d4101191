package jsontest

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/factmill/factmill/pkg/jsonx"
)

// TB is what the checks need of *testing.T and *rapid.T.
type TB interface {
	require.TestingT
	Helper()
}

// Codec is the functions of a type under test.
type Codec[T any] struct {
	Read  func(*jsonx.Reader, *T)
	Write func(*jsonx.Writer, *T)
	// Rare says of a value that it is left to encoding/json; nil: none is.
	Rare func(*T) bool
}

func (c Codec[T]) rare(v *T) bool { return c.Rare != nil && c.Rare(v) }

// Check holds the functions of a type against encoding/json: field by field, for random values, and for damaged JSON.
func (c Codec[T]) Check(t *testing.T) {
	t.Run("fields", func(t *testing.T) {
		var v T
		n := 0
		root := reflect.ValueOf(&v).Elem()
		eachField(root, root.Type().Name(), func(path string) {
			n++
			b, ok := jsonx.Write(&v, c.Write)
			if c.rare(&v) {
				require.False(t, ok, path)
				return
			}
			require.True(t, ok, path)
			want, err := json.Marshal(&v)
			require.NoError(t, err, path)
			require.Equal(t, string(want), string(b), "%s is written", path)
			var back T
			require.True(t, jsonx.Read(b, &back, jsonx.Floats, c.Read), path)
			require.Equal(t, v, back, "%s is read", path)
		})
		require.Positive(t, n)
		require.Zero(t, v)
	})
	t.Run("values", rapid.MakeCheck(func(t *rapid.T) {
		c.Value(t, rapid.SliceOfN(rapid.Byte(), 0, 800).Draw(t, "of"))
	}))
	t.Run("damaged", rapid.MakeCheck(func(t *rapid.T) {
		var v T
		src := source(rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "of"))
		src.fill(reflect.ValueOf(&v).Elem(), 3)
		b, err := json.Marshal(&v)
		if err != nil {
			t.Skip("no JSON")
		}
		for range rapid.IntRange(1, 3).Draw(t, "damages") {
			b = damage(t, b)
		}
		c.Body(t, b)
	}))
}

// Fuzz checks what a fuzzer finds, as JSON and as what a value is made of.
func (c Codec[T]) Fuzz(f *testing.F, seeds ...*T) {
	for _, s := range seeds {
		b, err := json.Marshal(s)
		require.NoError(f, err)
		f.Add(b)
	}
	f.Add([]byte(` { "Job" : {"job":"\u0041\ud83d\ude00"}, "x":[1,-0.5e+3,{"y":null}], "doc":null } `))
	f.Fuzz(func(t *testing.T, b []byte) {
		c.Body(t, b)
		c.Value(t, b)
	})
}

// Value checks the value that the bytes make.
func (c Codec[T]) Value(t TB, of []byte) {
	t.Helper()
	var v T
	src := source(of)
	src.fill(reflect.ValueOf(&v).Elem(), 4)
	want, err := json.Marshal(&v)
	got, ok := jsonx.Write(&v, c.Write)
	require.Equal(t, err == nil && !c.rare(&v), ok, "%v", err)
	if err != nil {
		return
	}
	require.Equal(t, ok, c.Body(t, want), "what encoding/json wrote is read without it: %s", want)
	if ok {
		require.Equal(t, string(want), string(got))
	}
}

// Body checks the JSON b, if it is that, and says whether it was read without encoding/json.
func (c Codec[T]) Body(t TB, b []byte) bool {
	t.Helper()
	was := bytes.Clone(b)
	var want T
	err := json.Unmarshal(b, &want)
	taken := c.body(t, b, jsonx.Floats, &want, err)

	var numbers T
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	derr := d.Decode(&numbers)
	if derr == nil {
		if _, end := d.Token(); end != io.EOF {
			derr = fmt.Errorf("more: %w", end)
		}
	}
	require.Equal(t, taken, c.body(t, b, jsonx.Literals, &numbers, derr) && taken, "numbers as they are written are read as well")

	var got T
	require.Equal(t, err, jsonx.Unmarshal(b, &got, c.Read))
	require.Equal(t, want, got)
	require.Equal(t, was, b, "the input is not written to")
	return taken
}

func (c Codec[T]) body(t TB, b []byte, n jsonx.Numbers, want *T, err error) bool {
	t.Helper()
	var got T
	if !jsonx.Read(b, &got, n, c.Read) {
		return false
	}
	require.NoError(t, err, "taken though it is to be refused: %q", b)
	require.Equal(t, *want, got, "%q", b)
	w, err := json.Marshal(want)
	require.NoError(t, err)
	g, err := json.Marshal(&got)
	require.NoError(t, err)
	require.Equal(t, string(w), string(g)) // -0 is no 0
	return true
}

// eachField sets each field below v in turn, calls fn, and takes it back.
func eachField(v reflect.Value, path string, fn func(path string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				eachField(v.Field(i), path+"."+f.Name, fn)
			}
		}
		return
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fn(path)
		eachField(v.Elem(), path, fn)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		if v.Type().Elem().Kind() != reflect.String { // a label that is empty is none
			fn(path)
		}
		eachField(v.Index(0), path+"[0]", func(p string) {
			reflect.Swapper(v.Interface())(0, 1) // the first differs from the second, and so does its place
			fn(p)
			reflect.Swapper(v.Interface())(0, 1)
		})
	case reflect.Array:
		for i := range v.Len() {
			v.Index(i).SetInt(int64(i) + 1)
		}
		fn(path)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]any{"b": "x", "a": 0.5}))
		fn(path)
	case reflect.Interface:
		v.Set(reflect.ValueOf("x"))
		fn(path)
	case reflect.String:
		v.SetString("x\n<\u2028é")
		fn(path)
	case reflect.Bool:
		v.SetBool(true)
		fn(path)
	case reflect.Float64:
		v.SetFloat(0.95)
		fn(path)
	case reflect.Uint64:
		v.SetUint(7)
		fn(path)
	case reflect.Uint8:
		v.SetUint(255)
		fn(path)
	default:
		v.SetInt(-7)
		fn(path)
	}
	v.SetZero()
}

// source makes values of bytes.
type source []byte

func (s *source) next() int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b)
}

func (s *source) u64() uint64 {
	var b [8]byte
	*s = (*s)[copy(b[:], *s):]
	return binary.LittleEndian.Uint64(b[:])
}

var texts = []string{"", "a", "rules", "Ada Lovelace", `he said "no"\`, "a\nb\tc\rd\be\ff\x00g\x1fh\x7f", "<a&b>", "x\u2028y\u2029", "\xff", "ab\xc3", "日本語 é ß",
	"0123456789abcdef0123456789abcdef0123456789abcdef", strings.Repeat("Ada worked for Acme.\n", 20), "1234567\xe9", "12345678é\n", "\ufffd", "😀"}

func (s *source) text() string {
	n := s.next()
	if n < len(texts) {
		return texts[n]
	}
	n = min(n%24, len(*s))
	t := string((*s)[:n])
	*s = (*s)[n:]
	return t
}

var floats = []float64{0, math.Copysign(0, -1), 1, -1, 0.95, 0.1 + 0.2, 1e-6, 9.99e-7, 1e-7, 1e20, 1e21, 123456.789, 999999.9999995, 999999.999999, 1e6, 1.0000001,
	5e-324, math.MaxFloat64, 1.5e300, 0.000001, 0.0000015, 100, 12345678901234567890, math.Inf(1), math.NaN()}

func (s *source) float() float64 {
	n := s.next()
	switch {
	case n < len(floats):
		return floats[n]
	case n < 128:
		return float64(s.u64()%2e6) / 1e6
	case n < 160:
		return float64(s.u64()%1e9) / 1e3
	}
	f := math.Float64frombits(s.u64())
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return 0.5
	}
	return f
}

func (s *source) any(depth int) any {
	n := s.next() % 12
	if depth == 0 {
		n %= 8
	}
	switch n {
	case 0:
		return nil
	case 1:
		return s.text()
	case 2:
		return s.float()
	case 3:
		return s.next()&1 == 1
	case 4:
		return s.next() - 100
	case 5:
		return int64(s.u64())
	case 6:
		return json.Number("-12.5e3")
	case 7:
		return []string{s.text()}
	case 8, 9:
		m := map[string]any{}
		for range s.next() % 4 {
			m[s.text()] = s.any(depth - 1)
		}
		return m
	case 10:
		return map[string]any(nil)
	}
	l := []any{}
	for range s.next() % 4 {
		l = append(l, s.any(depth-1))
	}
	return l
}

func (s *source) fill(v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				s.fill(v.Field(i), depth)
			}
		}
	case reflect.Pointer:
		if s.next()&1 == 1 {
			v.Set(reflect.New(v.Type().Elem()))
			s.fill(v.Elem(), depth)
		}
	case reflect.Slice:
		n := s.next() % 5
		if n == 0 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), n-1, n-1))
		for i := range n - 1 {
			s.fill(v.Index(i), depth)
		}
	case reflect.Array:
		for i := range v.Len() {
			s.fill(v.Index(i), depth)
		}
	case reflect.Map:
		if m, ok := s.any(depth).(map[string]any); ok {
			v.Set(reflect.ValueOf(m))
		}
	case reflect.Interface:
		if x := s.any(depth); x != nil {
			v.Set(reflect.ValueOf(x))
		}
	case reflect.String:
		v.SetString(s.text())
	case reflect.Bool:
		v.SetBool(s.next()&1 == 1)
	case reflect.Float64:
		v.SetFloat(s.float())
	case reflect.Uint8:
		v.SetUint(uint64(s.next()))
	case reflect.Uint64:
		v.SetUint(s.u64() % 1e19)
	default:
		n := int64(s.next()) - 10
		if n > 230 {
			n = max(int64(s.u64()), -math.MaxInt64)
		}
		v.SetInt(n)
	}
}

var tokens = []string{"null", "true", "false", "{}", "[]", "0", "-0", "01", "1.0", "1e2", "-1", "9223372036854775807", "9223372036854775808", "-9223372036854775808",
	"18446744073709551615", "1e999", "-", "1.", ".5", "+1", `""`, `"\u00e9"`, `"\ud83d\ude00"`, `"\ud800"`, `"\x"`, `"\u12"`, "\"\xff\"", `"a":1,`, `"A":1,`, `,"s":2`, `"n":3,`,
	`"Name":"x",`, `"\u0073":1,`, "\"\u017f\":1,", " ", "\n", "\t", "\x00", ",", ":", "{", "}", "[", "]", `"`, `\`, "nul", "tru"}

func damage(t *rapid.T, b []byte) []byte {
	at := rapid.IntRange(0, len(b)).Draw(t, "at")
	to := min(len(b), at+rapid.IntRange(0, 12).Draw(t, "size"))
	with := ""
	switch rapid.IntRange(0, 4).Draw(t, "how") {
	case 0: // cut
	case 1:
		with = rapid.SampledFrom(tokens).Draw(t, "token")
	case 2: // between, not over
		to, with = at, rapid.SampledFrom(tokens).Draw(t, "token")
	case 3: // twice
		with = string(b[at:to]) + string(b[at:to])
	case 4:
		with = strings.ToUpper(string(b[at:to]))
	}
	return append(append(append([]byte{}, b[:at]...), with...), b[to:]...)
}
