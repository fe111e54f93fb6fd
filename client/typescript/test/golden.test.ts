import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";

import { Client as GrpcClient, credentials, status, type ServiceError } from "@grpc/grpc-js";

import { prepare } from "../src/call.js";
import { AttendRequest } from "../src/gen/tessera/v1/attention.js";
import { Priority } from "../src/gen/tessera/v1/tensor.js";
import {
  Client,
  fromBFloat16,
  fromFloat16,
  type Call,
  type ClientOptions,
  type Tensor,
} from "../src/index.js";
import { LiveServer, noServer } from "./live_server.js";

const VECTORS = new URL("../../../../tests/golden/vectors/", import.meta.url);

interface GoldenCase {
  name: string;
  dtype: Tensor["dtype"];
  q_heads: number;
  kv_heads: number;
  head_dim: number;
  q_lengths: number[];
  kv_lengths: number[];
  scale: number | null;
  mask: "full" | "causal" | "window";
  window_left: number;
  window_right: number;
  softcap: number;
  return_lse: boolean;
  o_elements: number;
  lse_elements: number;
  atol: number;
  rtol: number;
  lse_atol: number;
  lse_rtol: number;
}

const MANIFEST = JSON.parse(readVector("manifest.json").toString()) as {
  cases: GoldenCase[];
  refused: { name: string; code: string; names: string }[];
};

function readVector(name: string): Buffer {
  return readFileSync(new URL(name, VECTORS));
}

function tensorOf(golden: GoldenCase, payload: Uint8Array, heads: number): Tensor {
  const bytes = Uint8Array.from(payload); // a Buffer's slice would be a view
  const elements = bytes.length / (golden.dtype === "float32" ? 4 : 2);
  const shape = [elements / (heads * golden.head_dim), heads, golden.head_dim] as const;
  return golden.dtype === "float32"
    ? { dtype: golden.dtype, shape, data: new Float32Array(bytes.buffer) }
    : { dtype: golden.dtype, shape, data: new Uint16Array(bytes.buffer) };
}

/** The case as a caller would write it. */
function callOf(golden: GoldenCase): Call<Tensor> {
  const request = AttendRequest.decode(readVector(`${golden.name}.request`));
  return {
    q: tensorOf(golden, request.q, golden.q_heads),
    k: tensorOf(golden, request.k, golden.kv_heads),
    v: tensorOf(golden, request.v, golden.kv_heads),
    qLengths: golden.q_lengths,
    kvLengths: golden.kv_lengths,
    mask: golden.mask === "window" ? { left: golden.window_left, right: golden.window_right } : golden.mask,
    scale: golden.scale ?? undefined,
    softcap: golden.softcap,
    returnLse: golden.return_lse,
  };
}

function widen(tensor: Tensor): Float32Array {
  if (tensor.dtype === "float32") return tensor.data;
  return tensor.dtype === "float16" ? fromFloat16(tensor.data) : fromBFloat16(tensor.data);
}

function assertAgrees(actual: Float32Array, expected: Float64Array, atol: number, rtol: number): void {
  assert.equal(actual.length, expected.length);
  actual.forEach((x, i) => {
    const y = expected[i] ?? NaN;
    const near = Number.isFinite(x) && Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y);
    assert.ok(near || x === y || (Number.isNaN(x) && Number.isNaN(y)), `element ${i} is ${x}, not ${y}`);
  });
}

const WAYS: Record<string, ClientOptions> = {
  unary: {},
  stream: { streamThreshold: -1, chunkBytes: 3000, stripeThreshold: Infinity },
  striped: { streamThreshold: -1, chunkBytes: 700, stripeThreshold: 0, connections: 3 },
};

describe("golden vectors", { skip: noServer, timeout: 120_000 }, () => {
  let server: LiveServer;
  before(async () => {
    server = await LiveServer.start();
  });
  after(() => server.stop());

  it("are there", () => {
    assert.ok(MANIFEST.cases.length >= 19 && MANIFEST.refused.length >= 15);
  });

  for (const golden of MANIFEST.cases) {
    it(`${golden.name}: the request means the same`, () => {
      const onFile = AttendRequest.decode(readVector(`${golden.name}.request`));
      const { header, payload } = prepare(callOf(golden));
      assert.deepEqual(payload.map((part) => Buffer.from(part)), [onFile.q, onFile.k, onFile.v].map((p) => Buffer.from(p)));
      // Defaults may be left out or spelt out.
      const options = { ...onFile.header?.options, priority: Priority.PRIORITY_NORMAL };
      const sent = AttendRequest.decode(AttendRequest.encode(AttendRequest.fromPartial({ header })).finish());
      assert.deepEqual(sent.header, { ...onFile.header, kvLengths: golden.kv_lengths, options });
    });
  }

  for (const [way, options] of Object.entries(WAYS)) {
    it(`agree, ${way}`, async () => {
      const client = new Client(server.target, options);
      try {
        await Promise.all(
          MANIFEST.cases.map(async (golden) => {
            const { o, lse, timing } = await client.attend(callOf(golden), { timeoutMs: 60_000 });
            const expected = new Float64Array(Uint8Array.from(readVector(`${golden.name}.expected`)).buffer);
            assert.equal(expected.length, golden.o_elements + golden.lse_elements);
            assertAgrees(widen(o), expected.subarray(0, golden.o_elements), golden.atol, golden.rtol);
            const lseExpected = expected.subarray(golden.o_elements);
            assertAgrees(lse ?? new Float32Array(), lseExpected, golden.lse_atol, golden.lse_rtol);
            assert.ok(timing.batchRequests >= 1);
          }),
        );
      } finally {
        await client.close();
      }
    });
  }

  it("refused requests are refused", async () => {
    const client = new GrpcClient(server.target, credentials.createInsecure());
    const same = (bytes: Buffer): Buffer => bytes;
    try {
      for (const refused of MANIFEST.refused) {
        const error = await new Promise<ServiceError | null>((resolve) => {
          const request = readVector(`${refused.name}.request`);
          client.makeUnaryRequest("/tessera.v1.AttentionService/Attend", same, same, request, resolve);
        });
        assert.equal(error && status[error.code], refused.code, refused.name);
        assert.match(error?.details ?? "", new RegExp(`\\b${refused.names}\\b`), refused.name);
      }
    } finally {
      client.close();
    }
  });
});
