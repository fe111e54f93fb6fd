import { status, type ClientDuplexStream, type StatusObject } from "@grpc/grpc-js";

import { byServer } from "./errors.js";
import { AttendStreamRequest, type AttendStreamResponse } from "./gen/tessera/v1/attention.js";
import type { Transfer } from "./transfer.js";

/** A stream that takes encoded messages. */
export type AttendStream = ClientDuplexStream<Uint8Array, AttendStreamResponse>;

/** One call on one stream; `index` is that of the stream among the call's. */
export class Part {
  session: Session | undefined;
  id = 0n;
  /** A message has been sent. */
  opened = false;

  constructor(
    readonly transfer: Transfer,
    readonly index: number,
  ) {}
}

/** How many calls a stream carries at a time; servers refuse more than 256. */
const MOST_CALLS = 200;
/** Messages that are on their way to the socket. */
const MOST_WRITES = 2;
/** How long the server may take to end a stream that is half-closed. */
const GOODBYE_MS = 2000;
/** How long a withdrawal may wait to be sent before the stream is given up. */
const STALL_MS = 2000;

/**
 * One AttendStream RPC, which many calls share. They take turns message by message, so that a small call passes a large
 * one.
 */
export class Session {
  /** Resolves when the RPC has ended. */
  readonly over: Promise<void>;
  private readonly parts = new Map<bigint, Part>();
  private readonly turns: Part[] = []; // with something to send, as far as they know
  private lastId = 0n;
  private writes = 0;
  private retired = false; // takes no more calls
  private halfClosed = false;
  private readonly timers = new Set<NodeJS.Timeout>();
  private onOver!: () => void;

  constructor(private readonly stream: AttendStream) {
    this.over = new Promise((resolve) => {
      this.onOver = resolve;
    });
    stream.on("data", (message: AttendStreamResponse) => {
      this.receive(message);
    });
    stream.on("status", (end: StatusObject) => {
      this.end(end);
    });
    stream.on("error", () => {
      // The status comes as well.
    });
  }

  /** False where the stream takes no more calls. */
  register(part: Part): boolean {
    if (this.retired || this.parts.size >= MOST_CALLS) return false;
    part.session = this;
    part.id = ++this.lastId;
    this.parts.set(part.id, part);
    this.turns.push(part);
    this.pump();
    return true;
  }

  /** Forgets the part, and tells the server where it has heard of it. REQUIRES: its transfer has ended. */
  withdraw(part: Part): void {
    if (this.parts.get(part.id) !== part) return; // answered, or the stream is over
    if (part.opened) {
      // A server that does not read would never hear of it.
      const stall = this.giveUpAfter(STALL_MS);
      const cancel = AttendStreamRequest.encode(AttendStreamRequest.fromPartial({ id: part.id, cancel: true })).finish();
      this.stream.write(cancel, () => {
        clearTimeout(stall);
        this.timers.delete(stall);
      });
    }
    this.remove(part);
  }

  /** Lets the stream end well when the calls that it has are over. */
  retire(): void {
    this.retired = true;
    this.leave();
  }

  private receive(message: AttendStreamResponse): void {
    const part = this.parts.get(message.id);
    if (part === undefined) return; // it has been withdrawn
    if (message.status !== undefined) this.remove(part);
    part.transfer.absorb(part.index, message);
  }

  private end(end: StatusObject): void {
    const error =
      end.code === status.OK
        ? byServer(status.UNAVAILABLE, "the server has ended the stream")
        : byServer(end.code, end.details);
    this.retired = true;
    this.halfClosed = true;
    for (const timer of this.timers) clearTimeout(timer);
    for (const part of this.parts.values()) part.transfer.fail(error);
    this.parts.clear();
    this.turns.length = 0;
    this.onOver();
  }

  private pump(): void {
    while (this.writes < MOST_WRITES && !this.halfClosed) {
      const part = this.turns.shift();
      if (part === undefined) return;
      const message = part.transfer.nextMessage(part.index, part.id, !part.opened);
      if (message === undefined) continue;
      part.opened = true;
      this.turns.push(part);
      this.writes++;
      this.stream.write(message, () => {
        this.writes--;
        this.pump();
      });
    }
  }

  private remove(part: Part): void {
    this.parts.delete(part.id);
    this.leave();
  }

  /** Half-closes a retired stream that has no calls, and gives it up where the server does not end it then. */
  private leave(): void {
    if (!this.retired || this.halfClosed || this.parts.size > 0) return;
    this.halfClosed = true;
    this.stream.end();
    this.giveUpAfter(GOODBYE_MS);
  }

  private giveUpAfter(ms: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.stream.cancel();
    }, ms);
    this.timers.add(timer);
    return timer;
  }
}
