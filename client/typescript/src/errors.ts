import { Metadata, status } from "@grpc/grpc-js";

/**
 * A failed call. Calls that end by an AbortSignal reject with the signal's reason instead.
 *
 * `code` is a gRPC status; `retryAfterMs` is when the server expects to have room, where it said so. The client has
 * tried again already.
 */
export class TesseraError extends Error {
  override readonly name = "TesseraError";

  constructor(
    readonly code: status,
    readonly details: string,
    readonly retryAfterMs?: number,
  ) {
    super(`${status[code]}: ${details}`);
  }
}

export function invalid(details: string): TesseraError {
  return new TesseraError(status.INVALID_ARGUMENT, details);
}

export function internal(details: string): TesseraError {
  return new TesseraError(status.INTERNAL, details);
}

export function closed(): TesseraError {
  return new TesseraError(status.CANCELLED, "the client is closed");
}

/**
 * The error of a call that nobody here has cancelled: CANCELLED is then the server's, which stops or has given the call
 * up, and means UNAVAILABLE.
 */
export function byServer(code: number, details: string, retryAfterMs?: number): TesseraError {
  if (code === (status.CANCELLED as number)) {
    return new TesseraError(status.UNAVAILABLE, `the server has cancelled the call: ${details}`, retryAfterMs);
  }
  return new TesseraError(isStatus(code) ? code : status.UNKNOWN, details, retryAfterMs);
}

/** Milliseconds that the server asks to wait; undefined where it names none. */
export function pushback(trailer: Metadata): number | undefined {
  const value = trailer.get("grpc-retry-pushback-ms")[0];
  return typeof value === "string" && /^[0-9]{1,9}$/.test(value) ? Number(value) : undefined;
}

function isStatus(code: number): code is status {
  return code in status;
}
