import type { Call, Tensor } from "../src/index.js";

/** All keys are zero, so that each row of o is the mean of v, which is rows of 1s. */
export function meanCall(tokens: number): Call<Tensor> {
  const tensor = (rows: number, value: number): Tensor => ({
    dtype: "float32",
    shape: [rows, 8, 64],
    data: new Float32Array(rows * 512).fill(value),
  });
  return { q: tensor(tokens, 0.5), k: tensor(4, 0), v: tensor(4, 1) };
}
