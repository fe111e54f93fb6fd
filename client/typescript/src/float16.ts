// 16-bit elements are the bits of a Uint16Array. Conversions to them round to the nearest, ties to even; NaN stays NaN.

const scratch = new Float32Array(1);
const bitsOf = new Uint32Array(scratch.buffer);

function bits(x: number): number {
  scratch[0] = x;
  return bitsOf[0] ?? 0;
}

/**
 * The float32 beside x that a second rounding treats as it would x: what is not x itself has its last bit set, so that
 * it is no tie.
 */
function oddBits(x: number): number {
  const nearest = bits(x);
  const rounded = scratch[0] ?? 0;
  if (rounded === x || Number.isNaN(x)) return nearest;
  return ((Math.abs(rounded) > Math.abs(x) ? nearest - 1 : nearest) | 1) >>> 0;
}

function fromBits(b: number): number {
  bitsOf[0] = b;
  return scratch[0] ?? 0;
}

function toHalf(x: number): number {
  const b = oddBits(x);
  const sign = (b >>> 16) & 0x8000;
  const magnitude = b & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00;
  if (magnitude >= 0x47800000) return sign | 0x7c00; // 2^16 and above
  // Below 2^-14 the result is a multiple of 2^-24, which adding 1/2 in float32 rounds to.
  if (magnitude < 0x38800000) return sign | (bits(fromBits(magnitude) + 0.5) - 0x3f000000);
  // The exponent's bias goes from 127 to 15, the significand from 23 bits to 10.
  return sign | ((magnitude - 0x38000000 + 0xfff + ((magnitude >>> 13) & 1)) >>> 13);
}

function fromHalf(h: number): number {
  const sign = h & 0x8000 ? -1 : 1;
  const exponent = (h >>> 10) & 0x1f;
  const significand = h & 0x3ff;
  if (exponent === 0) return sign * significand * 2 ** -24;
  if (exponent === 0x1f) return significand ? NaN : sign * Infinity;
  return sign * (1 + significand / 1024) * 2 ** (exponent - 15);
}

function toBrain(x: number): number {
  const b = oddBits(x);
  if (Number.isNaN(x)) return (b >>> 16) | 0x40;
  return (b + 0x7fff + ((b >>> 16) & 1)) >>> 16;
}

/** IEEE binary16 of each element; what is too large becomes infinite. */
export function toFloat16(values: ArrayLike<number>): Uint16Array {
  return Uint16Array.from(values, toHalf);
}

/** Exact. */
export function fromFloat16(elements: Uint16Array): Float32Array {
  return Float32Array.from(elements, fromHalf);
}

/** bfloat16 of each element. */
export function toBFloat16(values: ArrayLike<number>): Uint16Array {
  return Uint16Array.from(values, toBrain);
}

/** Exact. */
export function fromBFloat16(elements: Uint16Array): Float32Array {
  return Float32Array.from(elements, (b) => fromBits(b * 0x10000));
}
