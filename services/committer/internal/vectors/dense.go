package vectors

import (
	"math"

	"github.com/factmill/factmill/pkg/embed"
)

// dense is an index of vectors that are no sum of words: of a model, or of whole chunks. Nothing makes an exact search among such vectors
// faster than looking at each of them, so that is what it does: first at numbers of one byte, in strips of strip dimensions, until
// what is left of both lengths cannot make the score anymore; then, for what may be a hit, at the stored vector. It costs
// time in proportion to the vectors of the label, less with a high threshold.
//
// A vector v is kept as bytes c with v = scale·c + e, so that for a query u, likewise w with u = step·w + f,
// |u·v - step·scale·(w·c)| <= |f|·|v| + |u - f|·|e|.
type dense struct {
	size  int
	strip int
	codes []int8
	meta  []denseSlot
	tails []uint8 // by slot and strip: length of what follows the strip, in 255ths, rounded up
	dead  int
}

type denseSlot struct {
	id    uuid
	scale float32
	err   float32 // |e|, rounded up
	dead  bool
	group uint64
}

const stripSize = 64

func newDense(size int) *dense { return &dense{size: size, strip: stripSize} }

func (x *dense) strips() int { return (x.size + x.strip - 1) / x.strip }

func (x *dense) add(id uuid, v []float32, group uint64) uint32 {
	var most float64
	for _, f := range v {
		most = max(most, math.Abs(float64(f)))
	}
	s := denseSlot{id: id, scale: float32(most / 127), group: group}
	var squares float64
	for _, f := range v {
		c := int8(0)
		if s.scale > 0 {
			c = int8(math.Round(max(-127, min(127, float64(f)/float64(s.scale)))))
		}
		x.codes = append(x.codes, c)
		e := float64(f) - float64(s.scale)*float64(c)
		squares += e * e
	}
	s.err = float32(math.Sqrt(squares)*(1+1e-6) + 1e-12)
	for i := 1; i <= x.strips(); i++ {
		var rest float64
		for _, f := range v[min(i*x.strip, x.size):] {
			rest += float64(f) * float64(f)
		}
		x.tails = append(x.tails, uint8(min(255, math.Ceil(math.Sqrt(rest)*255*(1-1e-9)))))
	}
	x.meta = append(x.meta, s)
	return uint32(len(x.meta) - 1)
}

func (x *dense) remove(at uint32) {
	if !x.meta[at].dead {
		x.meta[at].dead = true
		x.dead++
	}
}

// tidy is as that of words.
func (x *dense) tidy(moved func(id uuid, at uint32)) *dense {
	if x.dead < 1024 || x.dead < len(x.meta)/2 {
		return x
	}
	out := newDense(x.size)
	n := x.strips()
	for i, s := range x.meta {
		if s.dead {
			continue
		}
		moved(s.id, uint32(len(out.meta)))
		out.meta = append(out.meta, s)
		out.codes = append(out.codes, x.codes[i*x.size:(i+1)*x.size]...)
		out.tails = append(out.tails, x.tails[i*n:(i+1)*n]...)
	}
	return out
}

func (x *dense) bytes() int64 {
	return int64(cap(x.codes)) + int64(cap(x.tails)) + int64(cap(x.meta))*40
}

// quantised is a query for dense vectors.
type quantised struct {
	w     []int32
	step  float64
	err   float64   // |f|
	long  float64   // |u - f|
	tails []float64 // by strip: length of u behind it
}

func (x *dense) quantise(u []float32) quantised {
	var most float64
	for _, f := range u {
		most = max(most, math.Abs(float64(f)))
	}
	z := quantised{w: make([]int32, len(u)), step: most / 32767}
	var lost, kept float64
	for i, f := range u {
		if z.step > 0 {
			z.w[i] = int32(math.Round(float64(f) / z.step))
		}
		k := float64(z.w[i]) * z.step
		lost += (float64(f) - k) * (float64(f) - k)
		kept += k * k
	}
	z.err, z.long = math.Sqrt(lost)+1e-9, math.Sqrt(kept)+1e-9
	for i := 1; i <= x.strips(); i++ {
		var rest float64
		for _, f := range u[min(i*x.strip, x.size):] {
			rest += float64(f) * float64(f)
		}
		z.tails = append(z.tails, math.Sqrt(rest)+1e-9)
	}
	return z
}

// vectors looks at every vector, or at those of a group; load returns a stored one.
func (q *query) vectors(x *dense, group uint64, load func(id uuid) ([]float32, error)) {
	if len(x.meta) == x.dead {
		return
	}
	z := x.quantise(q.vector)
	n := x.strips()
	for at := range x.meta {
		s := &x.meta[at]
		if s.dead || group != any64 && s.group != group {
			continue
		}
		q.stats.Compared++
		codes := x.codes[at*x.size : (at+1)*x.size]
		unit := z.step * float64(s.scale)
		wrong := z.err*1.001 + z.long*float64(s.err) + slack // |v| is 1, within 0.1 %
		var sum int64
		rough := math.Inf(-1)
		for i := range n {
			from, to := i*x.strip, min((i+1)*x.strip, x.size)
			sum += int64(product(z.w[from:to], codes[from:to]))
			part := float64(sum) * unit
			if part+wrong+z.tails[i]*float64(x.tails[at*n+i])/255 < q.floor {
				rough = math.Inf(-1)
				break
			}
			rough = part
		}
		if math.IsInf(rough, -1) {
			continue
		}
		id := s.id
		q.take(rough-wrong, found{id: id, rough: rough + wrong, exact: func() (float64, error) {
			v, err := load(id)
			if err != nil || v == nil {
				return math.Inf(-1), err
			}
			return embed.Cosine(q.vector, v), nil
		}})
	}
}

// product of strips of equal length: at most 64 products of 32,767 and 127, which fit.
func product(w []int32, c []int8) int32 {
	var a, b, d, e int32
	c = c[:len(w)]
	for len(w) >= 4 && len(c) >= 4 {
		a += w[0] * int32(c[0])
		b += w[1] * int32(c[1])
		d += w[2] * int32(c[2])
		e += w[3] * int32(c[3])
		w, c = w[4:], c[4:]
	}
	for i := range w {
		a += w[i] * int32(c[i])
	}
	return a + b + d + e
}
