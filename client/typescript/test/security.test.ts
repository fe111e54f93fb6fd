import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";

import { status } from "@grpc/grpc-js";

import { Client, TesseraError, secureCredentials, type SecurityFiles } from "../src/index.js";
import { LiveServer, noServer } from "./live_server.js";

let folder: string;
before(() => {
  folder = mkdtempSync(join(tmpdir(), "tessera-"));
});
after(() => {
  rmSync(folder, { recursive: true });
});

/** In one step. */
function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(`${path}.new`, text);
  renameSync(`${path}.new`, path);
  return path;
}

/** A certificate that is its own authority, for server and client. */
function certify(name: string): { certificate: string; privateKey: string } {
  const certificate = join(folder, `${name}.crt`);
  const privateKey = join(folder, `${name}.key`);
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", privateKey];
  const names = ["-subj", `/CN=${name}`, "-addext", "subjectAltName=IP:127.0.0.1"];
  execFileSync("openssl", ["req", "-x509", "-days", "1", ...key, ...names, "-out", certificate], { stdio: "ignore" });
  return { certificate, privateKey };
}

function tokenLine(tenant: string, token: string): string {
  return `${tenant} ${createHash("sha256").update(token).digest("hex")}\n`;
}

describe("server that asks for certificates and tokens", { skip: noServer, timeout: 120_000 }, () => {
  let server: LiveServer;
  let good: SecurityFiles;
  before(async () => {
    const pair = certify("good");
    const tokens = write("tokens", tokenLine("ours", "old"));
    server = await LiveServer.start(
      ...[`--tls_certificate=${pair.certificate}`, `--tls_private_key=${pair.privateKey}`],
      ...[`--tls_client_ca=${pair.certificate}`, `--token_file=${tokens}`],
    );
    good = { ca: pair.certificate, ...pair, tokenFile: write("token", "old\n") };
  });
  after(() => server.stop());

  async function codeOf(files: SecurityFiles, tenant?: string): Promise<status> {
    const client = new Client(server.target, { credentials: secureCredentials(files), tenant, timeoutMs: 10_000 });
    try {
      await client.serverInfo();
      return status.OK;
    } catch (error) {
      assert.ok(error instanceof TesseraError);
      return error.code;
    } finally {
      await client.close();
    }
  }

  it("answers those whose are good, and tells the others why not", async () => {
    const other = certify("other");
    assert.equal(await codeOf(good), status.OK);
    assert.equal(await codeOf({ ...good, tokenFile: undefined }), status.UNAUTHENTICATED);
    assert.equal(await codeOf({ ...good, tokenFile: write("unknown", "unknown") }), status.UNAUTHENTICATED);
    assert.equal(await codeOf(good, "theirs"), status.PERMISSION_DENIED);
    for (const bad of [{ ca: other.certificate }, { ...other }, { certificate: undefined, privateKey: undefined }]) {
      const code = await codeOf({ ...good, ...bad });
      assert.ok([status.UNAVAILABLE, status.DEADLINE_EXCEEDED].includes(code), status[code]);
    }
  });

  it("is called with a new token, without a failed call", async () => {
    const client = new Client(server.target, { credentials: secureCredentials(good), timeoutMs: 30_000 });
    // Calls of a connection that stays, and of new ones.
    const call = async (): Promise<void> => {
      await client.serverInfo();
      assert.equal(await codeOf(good), status.OK);
    };
    const callsFor = async (ms: number): Promise<void> => {
      for (const end = performance.now() + ms; performance.now() < end; ) await call();
    };
    write("tokens", tokenLine("ours", "old") + tokenLine("ours", "new"));
    const newcomer = { ...good, tokenFile: write("new", "new") };
    while ((await codeOf(newcomer)) !== status.OK) await call();
    write("token", "new");
    await callsFor(1500); // the client looks once a second
    write("tokens", tokenLine("ours", "new"));
    const latecomer = { ...good, tokenFile: write("old", "old") };
    while ((await codeOf(latecomer)) === status.OK) await call();
    await callsFor(100);
    await client.close();
  });
});

it("bad security files are refused", () => {
  const bad = write("bad", "secret secret");
  const { certificate, privateKey } = certify("pair");
  for (const files of [
    { ca: bad },
    { ca: join(folder, "none") },
    { ca: certificate, certificate },
    { ca: certificate, certificate, privateKey: bad },
    { ca: certificate, certificate, privateKey, tokenFile: bad },
    { ca: certificate, tokenFile: join(folder, "none") },
  ]) {
    assert.throws(
      () => secureCredentials(files),
      (error) => error instanceof TesseraError && !error.message.includes("secret"),
    );
  }
  assert.doesNotThrow(() => secureCredentials({ ca: certificate }));
});
