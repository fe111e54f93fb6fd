import { endianness } from "node:os";

import { credentials, type ChannelCredentials, type ChannelOptions } from "@grpc/grpc-js";

import { invalid } from "./errors.js";
import { serviceConfig } from "./retry.js";

export interface ClientOptions {
  /**
   * Each address that the target's name has is a server of its own, on which calls take turns: for a headless Service, or
   * a list "ipv4:10.0.0.7:7171,10.0.0.8:7171". Large calls are streamed to one of them, and not striped. Default: the
   * first address that answers.
   */
  readonly everyAddress?: boolean | undefined;
  /** TCP connections, to each server, on which calls take turns. Default 4. */
  readonly connections?: number | undefined;
  /** Whose fair share of the server the calls draw on. Default: the server's default tenant. */
  readonly tenant?: string | undefined;
  /** Milliseconds that a call may take unless it says otherwise. Default: no bound. */
  readonly timeoutMs?: number | undefined;
  /** Payload of one message of a stream. Default 1 MiB. */
  readonly chunkBytes?: number | undefined;
  /**
   * Calls with more bytes of q + k + v than this go over a stream in chunks, as do those that make a message larger than
   * the server takes. Default 2 MiB; negative streams every call.
   */
  readonly streamThreshold?: number | undefined;
  /**
   * Calls with at least so many bytes are spread over all connections, which needs a target that is a single server:
   * behind a load balancer set Infinity. Not with `everyAddress`. Default 16 MiB.
   */
  readonly stripeThreshold?: number | undefined;
  /** Default: plaintext. `secureCredentials` makes them of files. */
  readonly credentials?: ChannelCredentials | undefined;
  /** Of gRPC's own, before the client's where both set the same. */
  readonly channelOptions?: ChannelOptions | undefined;
}

export interface Settings {
  readonly everyAddress: boolean;
  readonly connections: number;
  readonly tenant: string | undefined;
  readonly timeoutMs: number | undefined;
  readonly chunkBytes: number;
  readonly streamThreshold: number;
  readonly stripeThreshold: number;
  readonly credentials: ChannelCredentials;
  readonly channelOptions: ChannelOptions;
}

/** The most streams that a call may be spread over. */
const MAX_STRIPES = 64;

export function settingsOf(options: ClientOptions): Settings {
  const connections = options.connections ?? 4;
  if (!Number.isInteger(connections) || connections < 1 || connections > MAX_STRIPES) {
    throw invalid(`connections is ${connections}; must be from 1 to ${MAX_STRIPES}`);
  }
  const chunkBytes = options.chunkBytes ?? 1 << 20;
  if (!Number.isInteger(chunkBytes) || chunkBytes < 1) throw invalid(`chunkBytes is ${chunkBytes}; must be positive`);
  if (options.tenant !== undefined && !/^[ -~]*$/.test(options.tenant)) {
    throw invalid(`tenant is ${JSON.stringify(options.tenant)}; must be printable ASCII`);
  }
  if (endianness() !== "LE") throw invalid("tensors are little-endian, this machine is not");
  const everyAddress = options.everyAddress ?? false;
  const streamThreshold = options.streamThreshold ?? 2 << 20;
  return {
    everyAddress,
    connections,
    tenant: options.tenant,
    timeoutMs: options.timeoutMs,
    chunkBytes,
    streamThreshold,
    // Stripes must meet in one server.
    stripeThreshold: everyAddress ? Infinity : (options.stripeThreshold ?? 16 << 20),
    credentials: options.credentials ?? credentials.createInsecure(),
    channelOptions: {
      "grpc.use_local_subchannel_pool": 1,
      "grpc.max_send_message_length": -1,
      "grpc.max_receive_message_length": -1,
      "grpc.keepalive_time_ms": 30_000,
      "grpc.keepalive_timeout_ms": 10_000,
      "grpc.service_config": serviceConfig(everyAddress),
      // A call larger than its retry buffer would not be tried again.
      "grpc.per_rpc_retry_buffer_size": 2 * Math.max(0, streamThreshold) + (1 << 20),
      "grpc.retry_buffer_size": 64 * (2 * Math.max(0, streamThreshold) + (1 << 20)),
      ...options.channelOptions,
    },
  };
}
