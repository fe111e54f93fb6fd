/**
 * The client of a Tessera server: attention as a network service.
 *
 *     const client = new Client("localhost:7171");
 *     const q: Tensor = { dtype: "float32", shape: [128, 8, 64], data: new Float32Array(128 * 8 * 64) };
 *     const { o } = await client.attend({ q, k: q, v: q, mask: "causal" });
 *     await client.close();
 */
export type { CallControl } from "./bounds.js";
export type { Call, Mask, Result, Shape, Tensor, Timing } from "./call.js";
export { Client } from "./client.js";
export { TesseraError } from "./errors.js";
export { fromBFloat16, fromFloat16, toBFloat16, toFloat16 } from "./float16.js";
export type { GetServerInfoResponse, PlanTilesRequest, PlanTilesResponse } from "./gen/tessera/v1/server.js";
export type { ClientOptions } from "./options.js";
export { secureCredentials, type SecurityFiles } from "./security.js";
