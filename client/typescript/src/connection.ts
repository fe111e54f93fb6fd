import { Client as GrpcClient, Metadata, type CallOptions, type ServiceError } from "@grpc/grpc-js";

import { Bounds } from "./bounds.js";
import { byServer, pushback } from "./errors.js";
import {
  AttendRequest,
  AttentionServiceService,
  type AttendResponse,
} from "./gen/tessera/v1/attention.js";
import {
  ServerServiceClient,
  type GetServerInfoResponse,
  type PlanTilesRequest,
  type PlanTilesResponse,
} from "./gen/tessera/v1/server.js";
import type { Settings } from "./options.js";
import { Session, type Part } from "./session.js";

/** A unary RPC that can be cancelled. */
interface UnaryCall {
  cancel(): void;
}

/** Messages are encoded ahead, so that gRPC never reads a tensor after its call has ended. */
function asBuffer(message: Uint8Array): Buffer {
  return Buffer.from(message.buffer, message.byteOffset, message.byteLength);
}

/** A TCP connection, to each server, and the stream that is open on it. */
export class Connection {
  private readonly client: GrpcClient;
  private readonly server: ServerServiceClient;
  private readonly metadata = new Metadata();
  /** Streams carry one call: gRPC spreads streams over servers, not the calls on them. */
  private readonly single: boolean;
  private session: Session | undefined;
  private readonly sessions = new Set<Session>();

  constructor(target: string, settings: Settings) {
    this.client = new GrpcClient(target, settings.credentials, settings.channelOptions);
    this.server = new ServerServiceClient(target, settings.credentials, {
      channelOverride: this.client.getChannel(),
    });
    this.single = settings.everyAddress;
    if (settings.tenant !== undefined) this.metadata.set("tessera-tenant", settings.tenant);
  }

  attend(request: AttendRequest, bounds: Bounds): Promise<AttendResponse> {
    const { path, responseDeserialize } = AttentionServiceService.attend;
    const message = AttendRequest.encode(request).finish();
    return this.unary(bounds, (options, done) =>
      this.client.makeUnaryRequest(path, asBuffer, responseDeserialize, message, this.metadata, options, done),
    );
  }

  serverInfo(bounds: Bounds): Promise<GetServerInfoResponse> {
    return this.unary(bounds, (options, done) => this.server.getServerInfo({}, this.metadata, options, done));
  }

  planTiles(request: PlanTilesRequest, bounds: Bounds): Promise<PlanTilesResponse> {
    return this.unary(bounds, (options, done) => this.server.planTiles(request, this.metadata, options, done));
  }

  /** Adds the part to the open stream, or to a new one where that is full or takes none any more. */
  join(part: Part): void {
    if (this.session?.register(part) === true) return;
    this.session?.retire();
    const { path, responseDeserialize } = AttentionServiceService.attendStream;
    const session = new Session(this.client.makeBidiStreamRequest(path, asBuffer, responseDeserialize, this.metadata));
    this.session = session;
    this.sessions.add(session);
    void session.over.then(() => this.sessions.delete(session));
    session.register(part);
    if (this.single) session.retire();
  }

  /** Ends the streams, and then the connection. REQUIRES: no call is open. */
  async close(): Promise<void> {
    const open = [...this.sessions];
    for (const session of open) session.retire();
    await Promise.all(open.map((session) => session.over));
    this.client.close();
  }

  private unary<Response>(
    bounds: Bounds,
    start: (
      options: Partial<CallOptions>,
      done: (error: ServiceError | null, response?: Response) => void,
    ) => UnaryCall,
  ): Promise<Response> {
    return new Promise((resolve, reject) => {
      const { signal, deadline } = bounds;
      if (signal.aborted) {
        reject(signal.reason);
        return;
      }
      const options = deadline === undefined ? {} : { deadline };
      const call = start(options, (error, response) => {
        signal.removeEventListener("abort", onAbort);
        if (error === null && response !== undefined) resolve(response);
        else if (signal.aborted) reject(signal.reason);
        else if (error !== null) reject(byServer(error.code, error.details, pushback(error.metadata)));
      });
      const onAbort = (): void => {
        call.cancel();
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort);
    });
  }
}
