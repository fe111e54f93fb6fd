import {
  Metadata,
  Server,
  ServerCredentials,
  status,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type sendUnaryData,
} from "@grpc/grpc-js";

import {
  AttendResponse,
  AttendStreamResponse,
  AttentionServiceService,
  type AttendRequest,
  type AttendStreamRequest,
} from "../src/gen/tessera/v1/attention.js";
import { GetServerInfoResponse, ServerServiceService } from "../src/gen/tessera/v1/server.js";

export type UnaryCall = ServerUnaryCall<AttendRequest, AttendResponse>;
export type StreamCall = ServerDuplexStream<AttendStreamRequest, AttendStreamResponse>;

/** Does what a test tells it to; without, a call's o is its q. */
export class FakeServer {
  unary = (call: UnaryCall, done: sendUnaryData<AttendResponse>): void => {
    done(null, AttendResponse.fromPartial({ o: call.request.q }));
  };
  stream = (stream: StreamCall): void => {
    onCall(stream, (id, payload) => stream.write(echo(id, payload)));
  };
  largestMessage = 16n << 20n;
  readonly seen = { unaries: 0, streams: 0, asked: 0, tenants: [] as string[] };
  target = "";
  private readonly server = new Server({ "grpc.max_receive_message_length": -1 });

  async start(): Promise<this> {
    this.server.addService(AttentionServiceService, {
      attend: (call: UnaryCall, done: sendUnaryData<AttendResponse>) => {
        this.seen.unaries++;
        this.seen.tenants.push(...call.metadata.get("tessera-tenant").map(String));
        this.unary(call, done);
      },
      attendStream: (stream: StreamCall) => {
        this.seen.streams++;
        this.seen.tenants.push(...stream.metadata.get("tessera-tenant").map(String));
        stream.on("end", () => {
          stream.end();
        });
        this.stream(stream);
      },
    });
    this.server.addService(ServerServiceService, {
      getServerInfo: (_: unknown, done: sendUnaryData<GetServerInfoResponse>) => {
        this.seen.asked++;
        done(null, GetServerInfoResponse.fromPartial({ limits: { maxMessageBytes: this.largestMessage } }));
      },
      planTiles: () => undefined,
    });
    const port = await new Promise<number>((resolve, reject) => {
      this.server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
        if (error === null) resolve(bound);
        else reject(error);
      });
    });
    this.target = `127.0.0.1:${port}`;
    return this;
  }

  stop(): void {
    this.server.forceShutdown();
  }
}

/** Runs `answer` when a call, whose messages come without another's between, is complete: q, k and v of equal size. */
export function onCall(stream: StreamCall, answer: (id: bigint, payload: Buffer) => void): void {
  let chunks: Uint8Array[] = [];
  let due = 0;
  stream.on("data", ({ id, header, payload }: AttendStreamRequest) => {
    if (header !== undefined) {
      const tokens = header.qLengths.reduce((a, b) => a + b, 0);
      due = 3 * tokens * header.qHeads * header.headDim * 4;
      chunks = [];
    }
    chunks.push(payload);
    due -= payload.length;
    if (due === 0) answer(id, Buffer.concat(chunks));
  });
}

/** The whole answer, in one message. */
export function echo(id: bigint, payload: Buffer): AttendStreamResponse {
  const o = payload.subarray(0, payload.length / 3);
  return AttendStreamResponse.fromPartial({
    id,
    result: { oBytes: BigInt(o.length) },
    payload: o,
    status: { code: 0 },
  });
}

/** A failure with the server's pushback of 2 ms. */
export function refusal(code: status): { code: status; details: string; metadata: Metadata } {
  const metadata = new Metadata();
  metadata.set("grpc-retry-pushback-ms", "2");
  return { code, details: "as the test wants it", metadata };
}
