import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { credentials, type ServiceError } from "@grpc/grpc-js";
// By the package's own name: as a program finds them that uses the package.
import { ExtendRequest, SequenceServiceClient, type ExtendResponse } from "tessera/v1/sequence";

import { LiveServer, noServer } from "./live_server.js";

/** A unary call by its callback. */
function answer<T>(call: (done: (error: ServiceError | null, response: T) => void) => unknown): Promise<T> {
  return new Promise((resolve, reject) => {
    call((error, response) => {
      if (error === null) resolve(response);
      else reject(error);
    });
  });
}

const HEAD_DIM = 8;

function row(value: number): Uint8Array {
  return new Uint8Array(new Float32Array(HEAD_DIM).fill(value).buffer);
}

describe("stubs", { skip: noServer, timeout: 120_000 }, () => {
  let server: LiveServer;
  let stub: SequenceServiceClient;
  before(async () => {
    server = await LiveServer.start(`--kv_profiles=name=small,head_dim=${HEAD_DIM},dtype=float32,pages=4`);
    stub = new SequenceServiceClient(server.target, credentials.createInsecure());
  });
  after(async () => {
    stub.close();
    await server.stop();
  });

  it("keep a sequence", async () => {
    const { sequences } = await answer<{ sequences: Uint8Array[] }>((done) =>
      stub.createSequences({ profile: "small" }, done),
    );
    const [sequence] = sequences;
    assert.ok(sequence !== undefined);
    const step = (v: number): ExtendRequest =>
      ExtendRequest.fromPartial({
        header: { qHeads: 1, entries: [{ sequence, layer: 0, qTokens: 1, appendTokens: 1 }] },
        q: row(0),
        k: row(1),
        v: row(v),
      });
    await answer<ExtendResponse>((done) => stub.extend(step(2), done));
    const { o, result } = await answer<ExtendResponse>((done) => stub.extend(step(4), done));
    // Scores are all 0: o is the mean of v.
    assert.deepEqual(new Float32Array(Uint8Array.from(o).buffer), new Float32Array(HEAD_DIM).fill(3));
    assert.deepEqual(result?.lengths, [2n]);
    assert.equal((await answer<{ released: number }>((done) => stub.releaseSequences({ sequences }, done))).released, 1);
  });
});
