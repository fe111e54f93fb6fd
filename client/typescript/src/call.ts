import { invalid } from "./errors.js";
import { AttendHeader, type AttendResult } from "./gen/tessera/v1/attention.js";
import { DataType, MaskKind, Priority } from "./gen/tessera/v1/tensor.js";

/** [tokens, heads, headDim] */
export type Shape = readonly [tokens: number, heads: number, headDim: number];

/** Packed, row-major: all rows of sequence 0, then all of sequence 1, ... */
export type Tensor =
  | { readonly dtype: "float32"; readonly shape: Shape; readonly data: Float32Array }
  | { readonly dtype: "float16" | "bfloat16"; readonly shape: Shape; readonly data: Uint16Array };

/** Which keys a row sees; -1 is unbounded. The last row of a sequence stands at its last key. */
export type Mask = "full" | "causal" | { readonly left: number; readonly right: number };

/** softmax(scale * q k^T + mask) v. The tensors must not change until the call has ended. */
export interface Call<T extends Tensor> {
  readonly q: T;
  readonly k: T;
  readonly v: T;
  /** Tokens of each sequence; default: the tensors are one sequence. */
  readonly qLengths?: readonly number[] | undefined;
  /** Default: qLengths, or one sequence. */
  readonly kvLengths?: readonly number[] | undefined;
  /** Default: "full". */
  readonly mask?: Mask | undefined;
  /** Default: 1 / sqrt(headDim). */
  readonly scale?: number | undefined;
  /** c > 0 makes scores c * tanh(score / c). */
  readonly softcap?: number | undefined;
  readonly returnLse?: boolean | undefined;
  readonly priority?: "low" | "normal" | "high" | undefined;
}

/** Where the server spent its time on a call, in milliseconds, and how many calls shared its batch. */
export interface Timing {
  readonly receiveMs: number;
  readonly queueMs: number;
  readonly runMs: number;
  readonly batchRequests: number;
}

export interface Result<T extends Tensor> {
  /** Of q's type and shape. */
  readonly o: T;
  /** [tokens, heads], natural log, -Infinity for a row that sees no key; undefined unless asked for. */
  readonly lse: Float32Array | undefined;
  readonly timing: Timing;
}

const DATA_TYPES = {
  float32: DataType.DATA_TYPE_FLOAT32,
  float16: DataType.DATA_TYPE_FLOAT16,
  bfloat16: DataType.DATA_TYPE_BFLOAT16,
};

const PRIORITIES = {
  low: Priority.PRIORITY_LOW,
  normal: Priority.PRIORITY_NORMAL,
  high: Priority.PRIORITY_HIGH,
};

/** A call that has been checked and laid out for the wire. */
export interface PreparedCall {
  readonly header: AttendHeader;
  /** q, k, v: views of the caller's tensors. */
  readonly payload: readonly [Uint8Array, Uint8Array, Uint8Array];
  readonly payloadBytes: number;
  readonly oBytes: number;
  readonly lseBytes: number;
}

/** Checks what can be checked without the server: that tensors and lengths fit each other. */
export function prepare(call: Call<Tensor>): PreparedCall {
  const { q, k, v } = call;
  for (const [name, tensor] of Object.entries({ q, k, v })) checkTensor(name, tensor, q);
  if (k.shape[0] !== v.shape[0] || k.shape[1] !== v.shape[1]) {
    throw invalid(`k is [${k.shape.join(", ")}], v is [${v.shape.join(", ")}]; must be the same`);
  }
  if (q.shape[1] % k.shape[1] !== 0) {
    throw invalid(`q_heads is ${q.shape[1]}; must be a multiple of kv_heads, ${k.shape[1]}`);
  }
  const qLengths = call.qLengths ?? [q.shape[0]];
  const kvLengths = call.kvLengths ?? call.qLengths ?? [k.shape[0]];
  if (qLengths.length !== kvLengths.length) {
    throw invalid(`q_lengths has ${qLengths.length} sequences, kv_lengths ${kvLengths.length}; must be the same`);
  }
  checkLengths("q", qLengths, q.shape[0]);
  checkLengths("kv", kvLengths, k.shape[0]);
  const payload = [bytesOf(q.data), bytesOf(k.data), bytesOf(v.data)] as const;
  return {
    header: {
      dtype: DATA_TYPES[q.dtype],
      qHeads: q.shape[1],
      kvHeads: k.shape[1],
      headDim: q.shape[2],
      qLengths: [...qLengths],
      kvLengths: [...kvLengths],
      options: {
        scale: call.scale,
        mask: wireMask(call.mask ?? "full"),
        softcap: call.softcap ?? 0,
        returnLse: call.returnLse ?? false,
        priority: PRIORITIES[call.priority ?? "normal"],
      },
    },
    payload,
    payloadBytes: payload.reduce((sum, part) => sum + part.length, 0),
    oBytes: payload[0].length,
    lseBytes: call.returnLse === true ? q.shape[0] * q.shape[1] * 4 : 0,
  };
}

/** The answer whose o and LSE lie end to end in `bytes`, which starts its buffer. */
export function resultOf<T extends Tensor>(call: Call<T>, bytes: Uint8Array, wire: AttendResult | undefined): Result<T> {
  const { q } = call;
  const data = q.dtype === "float32"
    ? new Float32Array(bytes.buffer, 0, q.data.length)
    : new Uint16Array(bytes.buffer, 0, q.data.length);
  const timing = wire?.timing;
  return {
    o: { dtype: q.dtype, shape: q.shape, data } as T,
    // Behind an o of 16-bit elements the LSE need not lie at a multiple of 4 bytes.
    lse: call.returnLse === true ? new Float32Array(bytes.slice(q.data.byteLength).buffer) : undefined,
    timing: {
      receiveMs: Number(timing?.receiveNs ?? 0n) / 1e6,
      queueMs: Number(timing?.queueNs ?? 0n) / 1e6,
      runMs: Number(timing?.runNs ?? 0n) / 1e6,
      batchRequests: timing?.batchRequests ?? 0,
    },
  };
}

function bytesOf(data: Float32Array | Uint16Array): Uint8Array {
  return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

function checkTensor(name: string, tensor: Tensor, q: Tensor): void {
  const [tokens, heads, headDim] = tensor.shape;
  const integers = [tokens, heads, headDim].every(Number.isSafeInteger);
  if (!integers || tokens < 0 || heads < 1 || headDim < 8 || headDim > 256 || headDim % 8 !== 0) {
    throw invalid(
      `${name} is [${tensor.shape.join(", ")}]; head_dim must be a multiple of 8 from 8 to 256, heads at least 1`,
    );
  }
  if (tensor.dtype !== q.dtype) throw invalid(`${name} is ${tensor.dtype}, q is ${q.dtype}; must be the same`);
  if (headDim !== q.shape[2]) throw invalid(`${name} has head_dim ${headDim}, q has ${q.shape[2]}; must be the same`);
  if (tensor.data.length !== tokens * heads * headDim) {
    throw invalid(`${name} has ${tensor.data.length} elements, not ${tokens} x ${heads} x ${headDim}`);
  }
  if ((tensor.dtype === "float32") !== (tensor.data instanceof Float32Array)) {
    throw invalid(`${name} is ${tensor.dtype}; its data must be a ${
      tensor.dtype === "float32" ? "Float32Array" : "Uint16Array"}`);
  }
}

function checkLengths(name: string, lengths: readonly number[], tokens: number): void {
  for (const n of lengths) {
    if (!Number.isSafeInteger(n) || n < 0 || n > 0xffffffff) throw invalid(`${name}_lengths has ${n}`);
  }
  const sum = lengths.reduce((total, n) => total + n, 0);
  if (sum !== tokens) throw invalid(`${name}_lengths add up to ${sum}; the tensor has ${tokens} tokens`);
}

function wireMask(mask: Mask): { kind: MaskKind; windowLeft: bigint; windowRight: bigint } {
  if (mask === "full") return { kind: MaskKind.MASK_KIND_FULL, windowLeft: 0n, windowRight: 0n };
  if (mask === "causal") return { kind: MaskKind.MASK_KIND_CAUSAL, windowLeft: 0n, windowRight: 0n };
  if (!Number.isSafeInteger(mask.left) || !Number.isSafeInteger(mask.right)) {
    throw invalid(`window_left is ${mask.left}, window_right is ${mask.right}; must be integers`);
  }
  return { kind: MaskKind.MASK_KIND_WINDOW, windowLeft: BigInt(mask.left), windowRight: BigInt(mask.right) };
}
