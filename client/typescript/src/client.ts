import { setTimeout as sleep } from "node:timers/promises";

import { status } from "@grpc/grpc-js";

import { Bounds, type CallControl } from "./bounds.js";
import { prepare, resultOf, type Call, type PreparedCall, type Result, type Tensor } from "./call.js";
import { Connection } from "./connection.js";
import { closed, internal, invalid, TesseraError } from "./errors.js";
import { AttendRequest } from "./gen/tessera/v1/attention.js";
import { PlanTilesRequest, type GetServerInfoResponse, type PlanTilesResponse } from "./gen/tessera/v1/server.js";
import { settingsOf, type ClientOptions, type Settings } from "./options.js";
import { delayMs } from "./retry.js";
import { Part } from "./session.js";
import { Transfer, type Answer } from "./transfer.js";

/** Messages of at most this size are sent without asking what the server takes: it is gRPC's own default limit. */
const SURELY_TAKEN_BYTES = 4 << 20;

/** A server's attention, over a few connections, which keep the process running until `close`. */
export class Client {
  private readonly settings: Settings;
  private readonly connections: Connection[];
  private closed = false;
  private turn = 0;
  private largestMessage: Promise<number> | undefined;
  private readonly inFlight = new Map<Bounds, Promise<unknown>>();

  /** `target` is a gRPC name such as "host:port" or "unix:path". A server that is not there shows as UNAVAILABLE. */
  constructor(target: string, options: ClientOptions = {}) {
    const settings = settingsOf(options);
    this.settings = settings;
    this.connections = Array.from({ length: settings.connections }, () => new Connection(target, settings));
  }

  /** Rejects with a TesseraError where the call cannot be right or fails for good, or with the signal's reason. */
  async attend<T extends Tensor>(call: Call<T>, control: CallControl = {}): Promise<Result<T>> {
    const prepared = prepare(call);
    const { bytes, result } = await this.bounded(control, (bounds) => this.answer(prepared, bounds));
    return resultOf(call, bytes, result);
  }

  /** Describes the server. */
  serverInfo(control: CallControl = {}): Promise<GetServerInfoResponse> {
    return this.bounded(control, (bounds) => this.next().serverInfo(bounds));
  }

  /** Asks for the tile that fits on-chip memory, and for its traffic. Fields left out take the server's defaults. */
  planTiles(request: Partial<PlanTilesRequest> = {}, control: CallControl = {}): Promise<PlanTilesResponse> {
    return this.bounded(control, (bounds) => this.next().planTiles(PlanTilesRequest.fromPartial(request), bounds));
  }

  /** Ends the calls in flight, which reject with CANCELLED, and the connections; the server has 2 s to end streams. */
  async close(): Promise<void> {
    this.closed = true;
    for (const bounds of this.inFlight.keys()) bounds.end(closed());
    await Promise.allSettled(this.inFlight.values());
    await Promise.all(this.connections.map((connection) => connection.close()));
  }

  private async bounded<R>(control: CallControl, call: (bounds: Bounds) => Promise<R>): Promise<R> {
    const timeoutMs = control.timeoutMs ?? this.settings.timeoutMs;
    if (this.closed) throw closed();
    if (Number.isNaN(timeoutMs)) throw invalid("timeoutMs is NaN");
    const bounds = new Bounds({ signal: control.signal, timeoutMs });
    try {
      bounds.signal.throwIfAborted();
      const ending = call(bounds);
      this.inFlight.set(bounds, ending);
      return await ending;
    } finally {
      this.inFlight.delete(bounds);
      bounds.release();
    }
  }

  private async answer(call: PreparedCall, bounds: Bounds): Promise<Answer> {
    if (!(await this.goesUnary(call, bounds))) return this.streamed(call, bounds);
    const response = await this.next().attend(requestOf(call), bounds);
    if (response.o.length !== call.oBytes || response.lse.length !== call.lseBytes) {
      throw internal(
        `the answer has ${response.o.length} bytes of o and ${response.lse.length} of LSE, ` +
          `not ${call.oBytes} and ${call.lseBytes}`,
      );
    }
    const bytes = new Uint8Array(call.oBytes + call.lseBytes);
    bytes.set(response.o);
    bytes.set(response.lse, call.oBytes);
    return { bytes, result: response.result };
  }

  /** Whether the call goes as one message: the settings are for it, and the server takes it. */
  private async goesUnary(call: PreparedCall, bounds: Bounds): Promise<boolean> {
    if (call.payloadBytes > this.settings.streamThreshold) return false;
    // The header is small, but for its lengths: at most 5 bytes each.
    const size = call.payloadBytes + 5 * (call.header.qLengths.length + call.header.kvLengths.length) + 256;
    return size <= SURELY_TAKEN_BYTES || size <= (await this.messageLimit(bounds));
  }

  /** The largest message that the server takes, which is asked until it has answered once; 0 where it does not. */
  private async messageLimit(bounds: Bounds): Promise<number> {
    this.largestMessage ??= this.next()
      .serverInfo(bounds)
      .then((info) => Number(info.limits?.maxMessageBytes ?? 0n));
    try {
      return await this.largestMessage;
    } catch {
      this.largestMessage = undefined;
      return 0;
    }
  }

  /** Makes the call in chunks, and again where it fails for a while. */
  private async streamed(call: PreparedCall, bounds: Bounds): Promise<Answer> {
    const { signal, deadline } = bounds;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.attempt(call, bounds);
      } catch (error) {
        const wait = error instanceof TesseraError && !signal.aborted ? delayMs(error, attempt) : undefined;
        if (wait === undefined || (deadline !== undefined && Date.now() + wait >= deadline)) throw error;
        await sleep(wait, undefined, { signal }).catch(() => {
          throw signal.reason;
        });
      }
    }
  }

  private async attempt(call: PreparedCall, bounds: Bounds): Promise<Answer> {
    const { signal, deadline } = bounds;
    signal.throwIfAborted();
    const connections = call.payloadBytes >= this.settings.stripeThreshold ? this.connections : [this.next()];
    const transfer = new Transfer(call, connections.length, this.settings.chunkBytes, deadline);
    const onAbort = (): void => {
      transfer.fail(signal.reason);
    };
    signal.addEventListener("abort", onAbort);
    const parts = connections.map((_, index) => new Part(transfer, index));
    parts.forEach((part, index) => connections[index]?.join(part));
    try {
      return await transfer.answer;
    } catch (error) {
      // So that a draining server can end.
      const unavailable = error instanceof TesseraError && error.code === status.UNAVAILABLE;
      for (const part of parts) {
        part.session?.withdraw(part);
        if (unavailable) part.session?.retire();
      }
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** The connection whose turn it is. */
  private next(): Connection {
    const connection = this.connections[this.turn++ % this.connections.length];
    if (connection === undefined) throw new RangeError("no connections");
    return connection;
  }
}

function requestOf(call: PreparedCall): AttendRequest {
  const [q, k, v] = call.payload;
  return { header: call.header, q, k, v };
}
