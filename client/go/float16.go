package tessera

import (
	"math"
	"unsafe"
)

// Float16 is the bits of an IEEE binary16.
type Float16 uint16

// BFloat16 is the bits of a bfloat16: the upper half of a float32.
type BFloat16 uint16

// AsFloat16 views bits as elements, and AsBFloat16 does so too; neither copies.
func AsFloat16(bits []uint16) []Float16 {
	return unsafe.Slice((*Float16)(unsafe.Pointer(unsafe.SliceData(bits))), len(bits))
}

// AsBFloat16 views bits as elements.
func AsBFloat16(bits []uint16) []BFloat16 {
	return unsafe.Slice((*BFloat16)(unsafe.Pointer(unsafe.SliceData(bits))), len(bits))
}

// ToBFloat16 rounds to the nearest, ties to even. NaN stays NaN.
func ToBFloat16(x float32) BFloat16 {
	bits := math.Float32bits(x)
	if x != x {
		return BFloat16(bits>>16 | 0x40)
	}
	return BFloat16((bits + 0x7fff + bits>>16&1) >> 16)
}

// Float32 is exact.
func (b BFloat16) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// ToFloat16 rounds to the nearest, ties to even; what is too large becomes infinite. NaN stays NaN.
func ToFloat16(x float32) Float16 {
	bits := math.Float32bits(x)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return Float16(sign | 0x7e00 | uint16(magnitude>>13&0x3ff))
	case magnitude >= 0x47800000: // 2^16 and above
		return Float16(sign | 0x7c00)
	case magnitude < 0x38800000: // below 2^-14: a multiple of 2^-24, which adding 1/2 rounds to
		rounded := math.Float32bits(math.Float32frombits(magnitude) + 0.5)
		return Float16(sign | uint16(rounded-0x3f000000))
	default: // the exponent's bias goes from 127 to 15, the significand from 23 bits to 10
		rounded := magnitude - 112<<23 + 0xfff + magnitude>>13&1
		return Float16(sign | uint16(rounded>>13))
	}
}

// Float32 is exact.
func (h Float16) Float32() float32 {
	sign := uint32(h) & 0x8000 << 16
	exponent := uint32(h) >> 10 & 0x1f
	significand := uint32(h) & 0x3ff
	switch exponent {
	case 0:
		return math.Float32frombits(sign | math.Float32bits(float32(significand)*0x1p-24))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | significand<<13)
	default:
		return math.Float32frombits(sign | (exponent+112)<<23 | significand<<13)
	}
}
