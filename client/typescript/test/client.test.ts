import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "node:test";

import { status } from "@grpc/grpc-js";

import { AttendStreamResponse, type AttendStreamRequest } from "../src/gen/tessera/v1/attention.js";
import { Client, TesseraError, type Call, type ClientOptions, type Tensor } from "../src/index.js";
import { echo, FakeServer, onCall, refusal } from "./fake_server.js";

type Float32 = Extract<Tensor, { dtype: "float32" }>;

function random(tokens: number, heads = 2, headDim = 8): Float32 {
  const data = Float32Array.from({ length: tokens * heads * headDim }, () => Math.random() - 0.5);
  return { dtype: "float32", shape: [tokens, heads, headDim], data };
}

function randomCall(tokens: number): Call<Float32> {
  return { q: random(tokens), k: random(tokens), v: random(tokens) };
}

async function assertEchoes(client: Client, call: Call<Float32>): Promise<void> {
  const { o } = await client.attend(call, { timeoutMs: 20_000 });
  assert.ok(Buffer.from(o.data.buffer, o.data.byteOffset, o.data.byteLength).equals(Buffer.from(call.q.data.buffer)));
}

async function assertFails(ending: Promise<unknown>, code: status, words: string | RegExp): Promise<TesseraError> {
  let failure: unknown;
  await assert.rejects(ending, (error) => {
    failure = error;
    return true;
  });
  assert.ok(failure instanceof TesseraError, String(failure));
  assert.equal(status[failure.code], status[code], failure.message);
  assert.match(failure.details, typeof words === "string" ? new RegExp(words) : words);
  return failure;
}

/** Both ways that a call can go. */
const WAYS: Record<string, ClientOptions> = { unary: {}, stream: { streamThreshold: -1, chunkBytes: 100 } };

describe("client", { timeout: 120_000 }, () => {
  let fake: FakeServer;
  const clients: Client[] = [];

  function clientOf(options: ClientOptions = {}): Client {
    const client = new Client(fake.target, options);
    clients.push(client);
    return client;
  }

  beforeEach(async () => {
    fake = await new FakeServer().start();
  });
  afterEach(async () => {
    await Promise.all(clients.splice(0).map((client) => client.close()));
    fake.stop();
  });

  for (const [name, way] of Object.entries(WAYS)) {
    it(`${name}: the answer comes back, the tenant is told`, async () => {
      const client = clientOf({ ...way, tenant: "blue" });
      for (const tokens of [0, 1, 40]) await assertEchoes(client, randomCall(tokens));
      assert.equal(fake.seen.unaries > 0, name === "unary");
      assert.equal(fake.seen.streams > 0, name === "stream");
      assert.equal(fake.seen.tenants[0], "blue");
    });

    it(`${name}: an aborted call is withdrawn, and rejects with the signal's reason`, async () => {
      const controller = new AbortController();
      const reason = new Error("not wanted any more");
      const withdrawn = new Promise<void>((resolve) => {
        fake.unary = (call) => {
          call.on("cancelled", resolve);
          controller.abort(reason);
        };
        fake.stream = (stream) => {
          stream.once("data", (opening: AttendStreamRequest) => {
            controller.abort(reason);
            stream.on("data", (message: AttendStreamRequest) => {
              if (message.cancel && message.id === opening.id) resolve();
            });
          });
        };
      });
      const client = clientOf({ ...way, connections: 1 });
      await assert.rejects(client.attend(randomCall(3), { signal: controller.signal }), reason);
      await withdrawn;
      await assert.rejects(client.attend(randomCall(3), { signal: controller.signal }), reason);
    });

    it(`${name}: the deadline is told, and kept`, async () => {
      let told = Infinity;
      fake.unary = (call) => {
        told = Number(call.getDeadline()) - Date.now();
      };
      fake.stream = (stream) => {
        stream.once("data", (opening: AttendStreamRequest) => {
          told = Number(opening.timeoutUs) / 1000;
        });
      };
      const client = clientOf(way);
      await assertFails(client.attend(randomCall(3), { timeoutMs: 1500 }), status.DEADLINE_EXCEEDED, "");
      assert.ok(told > 0 && told <= 1500, `told ${told} ms`);
    });

    it(`${name}: no time is as good as all time, and as none at all`, async () => {
      const client = clientOf(way);
      for (const timeoutMs of [Infinity, undefined]) {
        const { o } = await client.attend(randomCall(3), { timeoutMs });
        assert.equal(o.data.length, 48);
      }
      await assertFails(client.attend(randomCall(3), { timeoutMs: NaN }), status.INVALID_ARGUMENT, "timeoutMs is NaN");
      await assertFails(client.attend(randomCall(3), { timeoutMs: -1 }), status.DEADLINE_EXCEEDED, "");
    });

    it(`${name}: close ends calls`, async () => {
      const client = clientOf(way);
      fake.unary = () => void client.close();
      fake.stream = (stream) => stream.once("data", () => void client.close());
      await assertFails(client.attend(randomCall(3)), status.CANCELLED, "the client is closed");
      await assertFails(client.attend(randomCall(3)), status.CANCELLED, "the client is closed");
      await assertFails(client.serverInfo(), status.CANCELLED, "the client is closed");
    });
  }

  for (const [said, seen, attempts] of [
    [status.UNAVAILABLE, status.UNAVAILABLE, 5],
    [status.RESOURCE_EXHAUSTED, status.RESOURCE_EXHAUSTED, 5],
    [status.CANCELLED, status.UNAVAILABLE, 5], // nobody here has cancelled
    [status.INVALID_ARGUMENT, status.INVALID_ARGUMENT, 1],
    [status.INTERNAL, status.INTERNAL, 1],
  ] as const) {
    it(`${status[said]} is tried ${attempts} times and told as ${status[seen]}`, async () => {
      fake.unary = (_, done) => {
        done(refusal(said));
      };
      let tried = 0;
      fake.stream = (stream) => {
        onCall(stream, (id) => {
          tried++;
          const failed = { code: said, message: "as the test wants it", retryAfterMs: 2 };
          stream.write(AttendStreamResponse.fromPartial({ id, status: failed }));
        });
      };
      for (const way of Object.values(WAYS)) {
        const failed = await assertFails(clientOf(way).attend(randomCall(3)), seen, "as the test wants it");
        assert.equal(failed.retryAfterMs, 2);
      }
      assert.deepEqual([fake.seen.unaries, tried], [attempts, attempts]);
    });
  }

  it("a unary call of megabytes is tried again", async () => {
    const echoing = fake.unary;
    fake.unary = (call, done) => {
      if (fake.seen.unaries < 5) done(refusal(status.RESOURCE_EXHAUSTED));
      else echoing(call, done);
    };
    await assertEchoes(clientOf({ streamThreshold: 8 << 20 }), randomCall(20_000));
    assert.equal(fake.seen.unaries, 5);
  });

  it("a stream that breaks is opened again", async () => {
    const echoing = fake.stream;
    for (const end of [status.OK, status.CANCELLED, status.UNAVAILABLE]) {
      let first = true;
      fake.stream = (stream) => {
        if (!first) {
          echoing(stream);
          return;
        }
        first = false;
        stream.once("data", () => {
          if (end === status.OK) stream.end();
          else stream.emit("error", Object.assign(new Error("the server stops"), { code: end }));
        });
      };
      await assertEchoes(clientOf({ streamThreshold: -1, connections: 1 }), randomCall(100));
      assert.equal(first, false);
    }
  });

  it("answers come in any order", async () => {
    const waiting: (() => void)[] = [];
    fake.stream = (stream) => {
      onCall(stream, (id, payload) => {
        waiting.unshift(() => stream.write(echo(id, payload)));
        if (waiting.length === 2) for (const answer of waiting) answer();
      });
    };
    const client = clientOf({ streamThreshold: -1, connections: 1 });
    await Promise.all([assertEchoes(client, randomCall(3)), assertEchoes(client, randomCall(5))]);
    assert.equal(fake.seen.streams, 1);
  });

  it("a stream that the server does not read is given up", async () => {
    const gone = new Promise<unknown>((resolve) => {
      fake.stream = (stream) => {
        stream.pause();
        stream.on("cancelled", resolve);
      };
    });
    const client = clientOf({ streamThreshold: -1, connections: 1 });
    await client.serverInfo(); // connects, so that the call's time is spent on sending
    await assertFails(client.attend(randomCall(200_000), { timeoutMs: 1500 }), status.DEADLINE_EXCEEDED, "");
    await gone;
  });

  it("answers that do not fit are INTERNAL", async () => {
    const result = { oBytes: 192n };
    const good = { code: 0 };
    for (const answers of [
      [{ result: { oBytes: 1n }, payload: new Uint8Array(1), status: good }],
      [{ result, payload: new Uint8Array(100), status: good }],
      [{ status: good }],
      [{ result, payloadOffset: 4n, payload: new Uint8Array(100) }],
      [{ result, payload: new Uint8Array(193) }],
      [{ result, payload: new Uint8Array(8) }, { payloadOffset: 16n, payload: new Uint8Array(8) }],
    ]) {
      fake.stream = (stream) => {
        onCall(stream, (id) => {
          for (const answer of answers) stream.write(AttendStreamResponse.fromPartial({ ...answer, id }));
        });
      };
      await assertFails(clientOf({ streamThreshold: -1 }).attend(randomCall(3)), status.INTERNAL, "the answer has");
    }
    fake.unary = (_, done) => {
      done(null, { result: undefined, o: new Uint8Array(191), lse: new Uint8Array() });
    };
    await assertFails(clientOf().attend(randomCall(3)), status.INTERNAL, "the answer has 191 bytes");
  });

  it("asks once what the server takes, and only for messages above 4 MiB", async () => {
    fake.largestMessage = 5n << 20n;
    const client = clientOf({ streamThreshold: 32 << 20 });
    for (const [tokens, ...expected] of [
      [10_000, 1, 0, 0], // 1.8 MiB
      [25_000, 2, 0, 1], // 4.6 MiB
      [30_000, 2, 1, 1], // 5.5 MiB
    ] as const) {
      await assertEchoes(client, randomCall(tokens));
      assert.deepEqual([fake.seen.unaries, fake.seen.streams, fake.seen.asked], expected);
    }
  });

  it("for a server, the streams of a client that closes end well", async () => {
    const ended = new Promise<string>((resolve) => {
      fake.stream = (stream) => {
        onCall(stream, (id, payload) => stream.write(echo(id, payload)));
        stream.on("end", () => {
          resolve("end");
        });
        stream.on("cancelled", () => {
          resolve("cancelled");
        });
      };
    });
    const client = clientOf({ streamThreshold: -1 });
    await assertEchoes(client, randomCall(3));
    await client.close();
    assert.equal(await ended, "end");
  });

  it("settings out of range are refused", () => {
    for (const [words, options] of [
      ["connections", { connections: 0 }],
      ["chunkBytes", { chunkBytes: 0 }],
      ["tenant", { tenant: "a\nb" }],
    ] as const) {
      assert.throws(() => new Client("localhost:1", options), new RegExp(words));
    }
  });

  it("calls that cannot be right are refused", async () => {
    const good = randomCall(4);
    const client = clientOf();
    for (const [words, change] of [
      ["q has 3 elements", { q: { ...good.q, data: good.q.data.subarray(0, 3) } }],
      ["v has head_dim 16", { v: random(4, 2, 16) }],
      ["v is \\[5, 2, 8\\]", { v: random(5) }],
      ["head_dim must be", { q: random(4, 2, 12) }],
      ["q_heads is 3", { q: random(4, 3) }],
      ["q_lengths add up to 3", { qLengths: [1, 2] }],
      ["q_lengths has -1", { qLengths: [-1, 5] }],
      ["kv_lengths add up to 0", { qLengths: [4], kvLengths: [0] }],
      ["q_lengths has 2 sequences", { qLengths: [2, 2], kvLengths: [4] }],
      ["window_left is 0.5", { mask: { left: 0.5, right: 0 } }],
    ] as const) {
      await assertFails(client.attend({ ...good, ...change }), status.INVALID_ARGUMENT, words);
    }
  });
});
