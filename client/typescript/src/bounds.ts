import { status } from "@grpc/grpc-js";

import { TesseraError } from "./errors.js";

/** What a caller may bound a call by. */
export interface CallControl {
  /** Withdraws the call from the server; it rejects with the signal's reason. */
  signal?: AbortSignal | undefined;
  /** Milliseconds, after which the server drops the call; Infinity: no bound. Default: the client's. */
  timeoutMs?: number | undefined;
}

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** What ends one call early: its signal, its time, or the client, whichever comes first. */
export class Bounds {
  /** By Date.now(); undefined: none. */
  readonly deadline: number | undefined;
  private readonly controller = new AbortController();
  private readonly timer: NodeJS.Timeout | undefined;

  constructor(private readonly control: CallControl) {
    if (control.signal?.aborted === true) this.onAbort();
    control.signal?.addEventListener("abort", this.onAbort, { once: true });
    if (control.timeoutMs === undefined || control.timeoutMs === Infinity) return;
    this.deadline = Date.now() + control.timeoutMs;
    this.timer = setTimeout(
      () => {
        this.end(new TesseraError(status.DEADLINE_EXCEEDED, "the call's time ran out"));
      },
      Math.min(control.timeoutMs, LONGEST_TIMER_MS),
    );
  }

  /** Aborted when the call is over; the reason is what it rejects with. */
  get signal(): AbortSignal {
    return this.controller.signal;
  }

  /** Ends the call unless it has ended. */
  end(reason: unknown): void {
    this.controller.abort(reason);
  }

  /** To be called when the call has ended. */
  release(): void {
    clearTimeout(this.timer);
    this.control.signal?.removeEventListener("abort", this.onAbort);
  }

  private readonly onAbort = (): void => {
    this.end(this.control.signal?.reason);
  };
}
