import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

export const SERVER = process.env["TESSERA_SERVER"];

/** For `skip`: without a server program there is nothing to test. */
export const noServer = SERVER === undefined ? "TESSERA_SERVER does not name a tessera-server" : false;

/** A tessera-server on a free port. */
export class LiveServer {
  private constructor(
    private readonly process: ChildProcess,
    readonly target: string,
    private readonly metrics: string,
  ) {}

  static async start(...flags: string[]): Promise<LiveServer> {
    const ports = ["--listen=127.0.0.1:0", "--metrics_address=127.0.0.1:0", "--backend=cpu"];
    const server = spawn(SERVER ?? "", [...ports, "--drain_grace=0s", "--log_level=warning", ...flags], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    process.once("exit", () => server.kill("SIGKILL"));
    const [line] = (await once(createInterface(server.stdout), "line")) as [string];
    const { grpc_port: port, metrics_port: metrics } = JSON.parse(line) as { grpc_port: number; metrics_port: number };
    return new LiveServer(server, `127.0.0.1:${port}`, `127.0.0.1:${metrics}`);
  }

  /** How many Attend calls it has had, by its own count. */
  async calls(): Promise<number> {
    const text = await (await fetch(`http://${this.metrics}/metrics`)).text();
    const found = /^tessera_stage_seconds_count\{[^}]*stage="queue"[^}]*\} (\d+)/m.exec(text);
    if (found === null) throw new Error(`${this.metrics} has no count of calls`);
    return Number(found[1]);
  }

  /** Throws unless the server drains and exits with 0. */
  async stop(): Promise<void> {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    const [code] = (await ended) as [number | null];
    if (code !== 0) throw new Error(`the server ended with ${String(code)}`);
  }
}
