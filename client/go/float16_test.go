package tessera

import (
	"math"
	"testing"
)

func TestFloat16EveryValueSurvives(t *testing.T) {
	for bits := 0; bits < 1<<16; bits++ {
		h := Float16(bits)
		if back := ToFloat16(h.Float32()); back != h && h.Float32() == h.Float32() {
			t.Fatalf("%#04x is %v, which becomes %#04x", bits, h.Float32(), uint16(back))
		}
		if isNaN := bits&0x7fff > 0x7c00; isNaN != (h.Float32() != h.Float32()) {
			t.Fatalf("%#04x is %v", bits, h.Float32())
		}
		if back := ToFloat16(h.Float32()); bits&0x7fff > 0x7c00 && back&0x7fff <= 0x7c00 {
			t.Fatalf("NaN %#04x becomes %#04x", bits, uint16(back))
		}
		b := BFloat16(bits)
		if back := ToBFloat16(b.Float32()); back != b && b.Float32() == b.Float32() {
			t.Fatalf("bfloat16 %#04x becomes %#04x", bits, uint16(back))
		}
	}
}

// Between two neighbours the nearest wins, and of two that are as near the even one.
func TestFloat16Rounds(t *testing.T) {
	for bits := uint16(0); bits < 0x7bff; bits++ {
		low, high := float64(Float16(bits).Float32()), float64(Float16(bits+1).Float32())
		middle := float32((low + high) / 2)
		even := Float16(bits + bits&1)
		if got := ToFloat16(middle); got != even {
			t.Fatalf("%v becomes %#04x, not %#04x", middle, uint16(got), uint16(even))
		}
		if got := ToFloat16(math.Nextafter32(middle, 0)); got != Float16(bits) {
			t.Fatalf("just below %v becomes %#04x, not %#04x", middle, uint16(got), bits)
		}
		if got := ToFloat16(-math.Nextafter32(middle, 1e9)); got != Float16(bits+1|0x8000) {
			t.Fatalf("just below %v becomes %#04x, not %#04x", -middle, uint16(got), bits+1|0x8000)
		}
	}
}

func TestFloat16Values(t *testing.T) {
	infinity := float32(math.Inf(1))
	for _, c := range []struct {
		x    float32
		half Float16
		bf   BFloat16
	}{
		{0, 0, 0},
		{1, 0x3c00, 0x3f80},
		{-2, 0xc000, 0xc000},
		{0.1, 0x2e66, 0x3dcd},
		{65504, 0x7bff, 0x4780},
		{65519.996, 0x7bff, 0x4780},
		{65520, 0x7c00, 0x4780},
		{0x1p-24, 1, 0x3380},
		{0x1p-25, 0, 0x3300},
		{infinity, 0x7c00, 0x7f80},
		{-infinity, 0xfc00, 0xff80},
		{math.MaxFloat32, 0x7c00, 0x7f80},
	} {
		if got := ToFloat16(c.x); got != c.half {
			t.Errorf("%v in binary16 is %#04x, not %#04x", c.x, uint16(got), uint16(c.half))
		}
		if got := ToBFloat16(c.x); got != c.bf {
			t.Errorf("%v in bfloat16 is %#04x, not %#04x", c.x, uint16(got), uint16(c.bf))
		}
	}
}
