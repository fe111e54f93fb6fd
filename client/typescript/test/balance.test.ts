import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";

import { Client, type ClientOptions } from "../src/index.js";
import { LiveServer, noServer } from "./live_server.js";
import { meanCall } from "./mean_call.js";

describe("three servers", { skip: noServer, timeout: 120_000 }, () => {
  let servers: LiveServer[];
  before(async () => {
    servers = await Promise.all([1, 2, 3].map(() => LiveServer.start("--threads=1")));
  });
  after(() => Promise.all(servers.map((server) => server.stop())));

  const counts = (): Promise<number[]> => Promise.all(servers.map((server) => server.calls()));

  async function share(options: ClientOptions): Promise<void> {
    const target = `ipv4:${servers.map((server) => server.target).join(",")}`;
    const client = new Client(target, { everyAddress: true, timeoutMs: 60_000, ...options });
    const call = async (): Promise<void> => {
      const { o } = await client.attend(meanCall(1));
      assert.ok(o.data.every((x) => x === 1));
    };
    try {
      const idle = await counts();
      // gRPC begins with the first server that it has reached.
      for (let now = idle, tries = 0; now.some((count, i) => count === idle[i]); now = await counts(), tries++) {
        assert.ok(tries < 1000, `some server gets no calls: ${now.join(", ")}`);
        await call();
      }
      const before = await counts();
      const callers = Array.from({ length: 10 }, async () => {
        for (let i = 0; i < 60; i++) await call();
      });
      await Promise.all(callers);
      const shares = (await counts()).map((count, i) => count - (before[i] ?? 0));
      assert.ok(
        shares.every((count) => Math.abs(count - 200) <= 20),
        `the servers have had ${shares.join(", ")} calls`,
      );
    } finally {
      await client.close();
    }
  }

  it("share calls of one message", () => share({}));
  it("share streamed calls", () => share({ streamThreshold: -1 }));

  it("stand in for one another", async () => {
    const [server] = servers;
    assert.ok(server !== undefined);
    const before = await server.calls();
    // Nobody listens on port 1.
    const client = new Client(`ipv4:127.0.0.1:1,${server.target}`, { everyAddress: true, timeoutMs: 60_000 });
    for (let i = 0; i < 20; i++) await client.attend(meanCall(1));
    await client.close();
    assert.equal((await server.calls()) - before, 20);
  });
});
