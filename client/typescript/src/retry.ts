// Attention has no side effects: every call may be tried again. gRPC retries unary calls by the service config and heeds
// the server's pushback; the calls of a stream end with statuses of their own, which gRPC does not see, and are retried
// by `delayMs`, the same rule.
import { status } from "@grpc/grpc-js";

import type { TesseraError } from "./errors.js";

const ATTEMPTS = 5;
const INITIAL_BACKOFF_MS = 50;
const MAX_BACKOFF_MS = 2000;

/**
 * gRPC's, in JSON. `everyAddress`: calls take turns on all addresses of the name, and what is tried again goes to the next
 * one, rather than to the first that answers.
 */
export function serviceConfig(everyAddress: boolean): string {
  return JSON.stringify({
    loadBalancingConfig: [everyAddress ? { round_robin: {} } : { pick_first: {} }],
    methodConfig: [
      {
        name: [
          { service: "tessera.v1.AttentionService", method: "Attend" },
          { service: "tessera.v1.ServerService" },
        ],
        retryPolicy: {
          maxAttempts: ATTEMPTS,
          initialBackoff: `${INITIAL_BACKOFF_MS / 1000}s`,
          maxBackoff: `${MAX_BACKOFF_MS / 1000}s`,
          backoffMultiplier: 2,
          // A server that shuts down may say CANCELLED; a call that is cancelled here is not tried again.
          retryableStatusCodes: ["UNAVAILABLE", "CANCELLED", "RESOURCE_EXHAUSTED"],
        },
      },
    ],
  });
}

/**
 * What to wait after attempt number `attempt`, from 1, has failed; undefined: the failure is final. The server's word
 * goes before the client's own backoff.
 */
export function delayMs(failed: TesseraError, attempt: number): number | undefined {
  if (failed.code !== status.UNAVAILABLE && failed.code !== status.RESOURCE_EXHAUSTED) return undefined;
  if (attempt >= ATTEMPTS) return undefined;
  return failed.retryAfterMs ?? Math.random() * Math.min(MAX_BACKOFF_MS, INITIAL_BACKOFF_MS * 2 ** (attempt - 1));
}
