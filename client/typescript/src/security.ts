import { readFileSync } from "node:fs";

import { credentials, experimental, Metadata, type CallCredentials, type ChannelCredentials } from "@grpc/grpc-js";

import { invalid } from "./errors.js";

/** Names of files; those of certificates in PEM. */
export interface SecurityFiles {
  /** Who signs the server's certificate. */
  readonly ca: string;
  /** The client's own, for servers that ask for one; both or neither. */
  readonly certificate?: string | undefined;
  readonly privateKey?: string | undefined;
  /** The bearer token that calls carry. */
  readonly tokenFile?: string | undefined;
}

/** How often files are looked at. */
const PERIOD_MS = 1000;

/**
 * TLS, for `ClientOptions.credentials`. Files are read again when they change: connections made later use the
 * certificates that they then hold, calls the token. Throws where a file is no good.
 */
export function secureCredentials(files: SecurityFiles): ChannelCredentials {
  const { ca, certificate, privateKey, tokenFile } = files;
  if ((certificate === undefined) !== (privateKey === undefined)) throw invalid("certificate and privateKey go together");
  for (const path of [ca, certificate, privateKey]) {
    if (path !== undefined && !read(path).includes("-----BEGIN ")) throw invalid(`${path} holds nothing in PEM`);
  }
  const provider = new experimental.FileWatcherCertificateProvider({
    caCertificateFile: ca,
    certificateFile: certificate,
    privateKeyFile: privateKey,
    refreshIntervalMs: PERIOD_MS,
  });
  const tls = experimental.createCertificateProviderChannelCredentials(
    provider,
    certificate === undefined ? null : provider,
  );
  return tokenFile === undefined ? tls : credentials.combineChannelCredentials(tls, tokenCredentials(tokenFile));
}

/** Sends what the file holds; while it holds no token, the last one. */
function tokenCredentials(path: string): CallCredentials {
  let token = readToken(path);
  let nextLook = performance.now() + PERIOD_MS;
  return credentials.createFromMetadataGenerator((_options, done) => {
    const now = performance.now();
    if (now >= nextLook) {
      nextLook = now + PERIOD_MS;
      try {
        token = readToken(path);
      } catch {
        // The next look may find one.
      }
    }
    const metadata = new Metadata();
    metadata.set("authorization", `Bearer ${token}`);
    done(null, metadata);
  });
}

function readToken(path: string): string {
  const token = read(path).trim();
  if (!/^[!-~]+$/.test(token)) {
    throw invalid(`${path} holds no token: it must be printable ASCII without spaces, and not empty`);
  }
  return token;
}

function read(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch (error) {
    throw invalid(`${path} cannot be read: ${(error as NodeJS.ErrnoException).code ?? String(error)}`);
  }
}
