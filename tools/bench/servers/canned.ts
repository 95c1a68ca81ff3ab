/**
 * The way in by itself: listener, gateway and codecs as shipped, on every surface, in front of acts that answer at once. There
 * is one key, which it knows by heart, and neither database nor log.
 */
import { apiKeyBytes, makeApiKey, secretScopes, type ApiKey } from "../../../src/otp/keys/api-key.ts";
import type { E164 } from "../../../src/otp/phone-number.ts";
import { ok } from "../../../src/otp/reason.ts";
import { createClientAddress, createOwnAddressOf } from "../../../src/server/http/client-address.ts";
import { createConnections } from "../../../src/server/listener/connections.ts";
import { createPace } from "../../../src/server/listener/pace.ts";
import { connectionLimits, startServer } from "../../../src/server/listener/server.ts";
import { createPages } from "../../../src/server/pages/pages.ts";
import { createAddressOf, createAuthorize } from "../../../src/server/rpc/authorize.ts";
import { createCodecs } from "../../../src/server/rpc/codecs.ts";
import { createGateway } from "../../../src/server/rpc/gateway.ts";
import { createPerform } from "../../../src/server/rpc/handlers.ts";
import { createAuthenticate, type AuthenticateOptions } from "../../../src/service/callers/api-keys.ts";
import { createCallLimits } from "../../../src/service/callers/call-limits.ts";
import type { Verifications } from "../../../src/service/verifications.ts";
import { createSystem } from "../../../src/system.ts";

const system = createSystem();
const now = () => system.now();
const onFault = (error: unknown) => console.error(error);

const { id, digest } = makeApiKey("live", new Uint8Array(apiKeyBytes));
const key: ApiKey = {
  id,
  digest,
  kind: "live",
  tenant: "default",
  name: "bench",
  scopes: secretScopes,
  origins: [],
  isApp: false,
  channels: ["sms"],
  createMs: now(),
  expireMs: null,
  revokeMs: null,
  lastUseMs: Number.POSITIVE_INFINITY,
  lastRefuseMs: null,
};

const sent = {
  id: "A".repeat(22),
  state: "PENDING",
  delivery: "ACCEPTED",
  digits: 6,
  expireMs: now() + 600_000,
  nextResendMs: now() + 30_000,
  resendsRemaining: 2,
  at: now(),
} as const;
const verified = { id: sent.id, phone: "+31612345678" as E164, verifyMs: sent.at, receipt: "e".repeat(400) };
const verifications: Pick<Verifications, "send" | "verify"> = {
  send: () => Promise.resolve({ result: ok(sent), replayed: false }),
  verify: () => Promise.resolve({ result: ok(verified), replayed: false }),
};

const ownAddressOf = createOwnAddressOf([]);
const connections = createConnections({
  ...connectionLimits,
  idleMs: 1_800_000,
  maxAgeMs: 0,
  connectionsMax: 10_000,
  ownAddressOf,
  pace: createPace(),
  isProxy: () => false,
});
const addressOf = createAddressOf(createClientAddress([]));
const { authenticate, wasValid } = createAuthenticate({
  store: { now, registry: { findApiKey: () => Promise.resolve(key) } } as unknown as AuthenticateOptions["store"],
  failureLimit: { burst: 10, intervalMs: 1_000 },
  isShared: () => false,
  onFault,
});
const limit = { burst: 60, intervalMs: 1_000 };
const authorize = createAuthorize({
  authenticate,
  admit: (judged) => Promise.resolve(judged),
  addressOf,
  callLimits: createCallLimits(now, { key: undefined, address: { sends: limit, calls: limit } }),
  now,
  warn: () => {},
});
const perform = createPerform({
  verifications: verifications as Verifications,
  byMessage: authorize.byMessage,
  onFault: (_, error) => onFault(error),
});
const bodyBytesMax = 16_384;
const handler = createGateway({
  codecs: createCodecs(perform, bodyBytesMax),
  system,
  authorize: authorize.byHeaders,
  listsOrigin: () => Promise.resolve(false),
  addressOf,
  ownAddressOf,
  wasValid,
  pages: (shared) => createPages(new Map(), shared, connections.untilRoom),
  onAuthenticated: connections.authenticated,
  bodyBytesMax,
  deadlineMs: 15_000,
  callsMax: 1_024,
  onCall: () => {},
  onFault,
});
const { port } = await startServer({ handler, connections, host: "127.0.0.1", port: 0, onFault });
process.stdout.write(`port ${port}\n`);
process.on("SIGTERM", () => process.exit(0));
