import assert from "node:assert/strict";
import { test } from "node:test";

import { fromBFloat16, fromFloat16, toBFloat16, toFloat16 } from "../src/index.js";

const EVERY = Uint16Array.from({ length: 1 << 16 }, (_, i) => i);

for (const [name, from, to, largest] of [
  ["float16", fromFloat16, toFloat16, 0x7bff],
  ["bfloat16", fromBFloat16, toBFloat16, 0x7f7f],
] as const) {
  test(`every ${name} survives`, () => {
    const wide = from(EVERY);
    const back = to(wide);
    wide.forEach((x, i) => {
      assert.equal(Number.isNaN(x), (i & 0x7fff) > largest + 1, `${i.toString(16)} is ${x}`);
      if (Number.isNaN(x)) assert.ok(((back[i] ?? 0) & 0x7fff) > largest + 1, `NaN ${i.toString(16)}`);
      else assert.equal(back[i], i);
    });
  });

  test(`${name} rounds to the nearest, ties to even`, () => {
    const wide = from(EVERY);
    for (let i = 0; i < largest; i++) {
      const [low, high] = [wide[i] ?? NaN, wide[i + 1] ?? NaN];
      const middle = (low + high) / 2;
      const inside = [low + (middle - low) * 0.99, middle, high - (high - middle) * 0.99];
      if (low < 1e-36) continue; // where float32 itself has too few bits for the test's values
      assert.deepEqual([...to(inside)], [i, i + (i & 1), i + 1], `between ${low} and ${high}`);
      assert.deepEqual([...to(inside.map((x) => -x))], [i, i + (i & 1), i + 1].map((b) => b | 0x8000));
    }
  });
}

test("numbers are rounded once, not to float32 first", () => {
  const close = 2 ** -40; // lost in float32
  const halves = [1 + 2 ** -11 + close, 1 + 2 ** -11 - close, 1 + 3 * 2 ** -11 - close, 2 ** -25 + 2 ** -60, 65520 - 2 ** -30];
  assert.deepEqual([...toFloat16(halves)], [0x3c01, 0x3c00, 0x3c01, 1, 0x7bff]);
  assert.deepEqual([...toFloat16(halves.map((x) => -x))], [0xbc01, 0xbc00, 0xbc01, 0x8001, 0xfbff]);
  assert.deepEqual([...toFloat16([1e300, -1e300, 1e-300])], [0x7c00, 0xfc00, 0]);
  const brains = [1 + 2 ** -8 + close, 1 + 2 ** -8 - close, -(1 + 2 ** -8 + close), 1e300, -1e-300];
  assert.deepEqual([...toBFloat16(brains)], [0x3f81, 0x3f80, 0xbf81, 0x7f80, 0x8000]);
});

test("known values", () => {
  const values = [1, -2, 0.1, 65504, 65520, 2 ** -24, 2 ** -25, Infinity, -Infinity];
  assert.deepEqual(
    [...toFloat16(values)],
    [0x3c00, 0xc000, 0x2e66, 0x7bff, 0x7c00, 1, 0, 0x7c00, 0xfc00],
  );
  assert.deepEqual(
    [...toBFloat16(values)],
    [0x3f80, 0xc000, 0x3dcd, 0x4780, 0x4780, 0x3380, 0x3300, 0x7f80, 0xff80],
  );
});
