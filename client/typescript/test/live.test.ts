import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { status } from "@grpc/grpc-js";

import { Client, TesseraError } from "../src/index.js";
import { LiveServer, noServer } from "./live_server.js";
import { meanCall } from "./mean_call.js";

describe("live server", { skip: noServer, timeout: 120_000 }, () => {
  let server: LiveServer;
  let client: Client;
  before(async () => {
    server = await LiveServer.start("--max_message_bytes=4MiB");
    client = new Client(server.target, { timeoutMs: 60_000 });
  });
  after(async () => {
    await client.close();
    await server.stop();
  });

  it("large calls go in chunks and over all connections, small ones among them", async () => {
    await Promise.all(
      [1, 100, 3000, 12_000, 20_000, 1, 100, 3000].map(async (tokens) => {
        const { o } = await client.attend(meanCall(tokens));
        assert.equal(o.data.length, tokens * 512);
        assert.ok(o.data.every((x) => x === 1));
      }),
    );
  });

  it("describes itself", async () => {
    const info = await client.serverInfo();
    assert.equal(info.backend, "cpu");
    assert.equal(info.limits?.maxMessageBytes, 4n << 20n);
    const plan = await client.planTiles();
    assert.equal(plan.tile, 128);
    assert.equal(plan.totalBytes, 2n * (4n * 128n * 128n + 128n * 128n) + 8n * 128n);
  });

  it("refuses by name", async () => {
    await assert.rejects(
      client.attend({ ...meanCall(1), softcap: -1 }),
      (error) => error instanceof TesseraError && error.code === status.INVALID_ARGUMENT && /softcap/.test(error.details),
    );
  });
});
