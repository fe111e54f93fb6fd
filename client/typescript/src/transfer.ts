import { randomBytes } from "node:crypto";

import type { PreparedCall } from "./call.js";
import { byServer, internal } from "./errors.js";
import { AttendStreamRequest, type AttendResult, type AttendStreamResponse } from "./gen/tessera/v1/attention.js";

/** An answer: o and LSE laid end to end. */
export interface Answer {
  readonly bytes: Uint8Array;
  readonly result: AttendResult | undefined;
}

/** What a stream still has to bring of the answer, in bytes. */
interface Range {
  next: number;
  readonly end: number;
}

/**
 * One attempt of a streamed call, on one stream or striped over several: its messages, and its answer put together.
 *
 * Once it has ended, neither the call's tensors nor its answer are touched.
 */
export class Transfer {
  readonly answer: Promise<Answer>;
  private resolve!: (answer: Answer) => void;
  private reject!: (reason: unknown) => void;
  private ended = false;

  private readonly name: Uint8Array | undefined;
  private tensor = 0; // of the next chunk,
  private from = 0; // where that starts in its tensor,
  private offset = 0; // and in the payload

  private readonly bytes: Uint8Array;
  private readonly ranges: Range[] = [];
  private readonly results: (AttendResult | undefined)[] = [];
  private unfinished: number;

  /** `deadline` is by Date.now(). */
  constructor(
    private readonly call: PreparedCall,
    private readonly streams: number,
    private readonly chunkBytes: number,
    private readonly deadline: number | undefined,
  ) {
    this.answer = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    if (streams > 1) this.name = randomBytes(16);
    const total = call.oBytes + call.lseBytes;
    this.bytes = new Uint8Array(total);
    const share = Math.ceil(total / streams);
    for (let i = 0; i < streams; i++) {
      this.ranges.push({ next: Math.min(i * share, total), end: Math.min((i + 1) * share, total) });
    }
    this.unfinished = streams;
  }

  /** Ends the transfer unless it has ended. */
  fail(reason: unknown): void {
    if (this.ended) return;
    this.ended = true;
    this.reject(reason);
  }

  /**
   * The next message of the stream of that index, under the id that the call has there, encoded, which copies; the first
   * one opens it. Each chunk goes to the stream that asks first. Undefined: there is none, or the transfer has ended.
   */
  nextMessage(index: number, id: bigint, first: boolean): Uint8Array | undefined {
    while (this.tensor < 3 && this.from === this.call.payload[this.tensor]?.length) {
      this.tensor++;
      this.from = 0;
    }
    const whole = this.call.payload[this.tensor];
    if (this.ended || (whole === undefined && !first)) return undefined;
    const message = AttendStreamRequest.fromPartial({ id });
    if (first) {
      message.header = this.call.header;
      if (this.deadline !== undefined) {
        message.timeoutUs = BigInt(Math.max(1, Math.floor((this.deadline - Date.now()) * 1000)));
      }
      if (this.name !== undefined) message.stripe = { transfer: this.name, index, count: this.streams };
    }
    if (whole !== undefined) {
      message.payload = whole.subarray(this.from, this.from + this.chunkBytes);
      message.payloadOffset = BigInt(this.offset);
      this.offset += message.payload.length;
      this.from += message.payload.length;
    }
    return AttendStreamRequest.encode(message).finish();
  }

  /** Takes an answer to the stream of that index. One with a status is the stream's last. */
  absorb(index: number, message: AttendStreamResponse): void {
    if (this.ended) return;
    const { result, status, payload } = message;
    if (status !== undefined && status.code !== 0) {
      this.fail(byServer(status.code, status.message, status.retryAfterMs || undefined));
      return;
    }
    if (result !== undefined) {
      if (Number(result.oBytes) !== this.call.oBytes || Number(result.lseBytes) !== this.call.lseBytes) {
        this.fail(
          internal(
            `the answer has ${result.oBytes.toString()} bytes of o and ${result.lseBytes.toString()} of LSE, ` +
              `not ${this.call.oBytes} and ${this.call.lseBytes}`,
          ),
        );
        return;
      }
      this.results[index] = result;
    }
    const due = this.ranges[index];
    if (due === undefined) throw new RangeError(`no stream ${index}`);
    if (payload.length > 0) {
      const at = Number(message.payloadOffset);
      if (at !== due.next || payload.length > due.end - due.next) {
        this.fail(
          internal(`the answer has ${payload.length} bytes at ${at} where those from ${due.next} to ${due.end} are due`),
        );
        return;
      }
      this.bytes.set(payload, at);
      due.next += payload.length;
    }
    if (status !== undefined) this.finish(index, due);
  }

  private finish(index: number, due: Range): void {
    if (this.results[index] === undefined || due.next !== due.end) {
      this.fail(internal(`the answer has ended at byte ${due.next}, ${due.end} were due`));
      return;
    }
    if (--this.unfinished > 0) return;
    this.ended = true;
    this.resolve({ bytes: this.bytes, result: this.results[0] });
  }
}
