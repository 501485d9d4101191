package jsonx

import (
	"math"
	"strconv"
)

// digits reads at most 19 digits, as JSON has a whole number: more, or a leading zero, are a fault, and so is what of a fraction stands
// behind them.
func (r *Reader) digits() (n uint64) {
	start := r.i
	for ; r.i < len(r.b); r.i++ {
		c := r.b[r.i] - '0'
		if c > 9 {
			break
		}
		n = n*10 + uint64(c)
	}
	if l := r.i - start; l == 0 || l > 19 || l > 1 && r.b[start] == '0' {
		r.Fail()
		return 0
	}
	return n
}

// Int64 reads a whole number.
func (r *Reader) Int64() int64 {
	sign := int64(1)
	switch r.peek() {
	case 'n':
		r.literal("null")
		return 0
	case '-':
		r.i++
		sign = -1
	}
	n := r.digits()
	if n > math.MaxInt64 {
		r.Fail()
		return 0
	}
	return sign * int64(n)
}

// Int reads a whole number.
func (r *Reader) Int() int {
	n := r.Int64()
	if int64(int(n)) != n {
		r.Fail()
	}
	return int(n)
}

// Uint64 reads a whole number that is not negative.
func (r *Reader) Uint64() uint64 {
	if r.Null() {
		return 0
	}
	return r.digits()
}

// number consumes a number and returns its text.
func (r *Reader) number() []byte {
	r.peek()
	start := r.i
	if r.at('-') {
		r.i++
	}
	if r.at('0') {
		r.i++
	} else {
		r.some()
	}
	if r.at('.') {
		r.i++
		r.some()
	}
	if r.at('e') || r.at('E') {
		r.i++
		if r.at('+') || r.at('-') {
			r.i++
		}
		r.some()
	}
	if r.bad {
		return nil
	}
	return r.b[start:r.i]
}

func (r *Reader) at(c byte) bool { return r.i < len(r.b) && r.b[r.i] == c }

// some consumes one digit or more.
func (r *Reader) some() {
	start := r.i
	for r.i < len(r.b) && r.b[r.i]-'0' <= 9 {
		r.i++
	}
	if r.i == start {
		r.Fail()
	}
}

// Float64 reads a number.
func (r *Reader) Float64() float64 {
	if r.Null() {
		return 0
	}
	s := r.number()
	if r.bad {
		return 0
	}
	f, err := strconv.ParseFloat(string(s), 64)
	if err != nil {
		r.Fail()
	}
	return f
}
