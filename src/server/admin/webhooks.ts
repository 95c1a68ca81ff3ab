/**
 * The RPCs on endpoints that are told of events.
 */
import { durationMs } from "@bufbuild/protobuf/wkt";
import { checkEndpointUrl } from "../../delivery/endpoint-url.ts";
import { tryEndpoint } from "../../delivery/try-endpoint.ts";
import type { Post, Posted } from "../../delivery/post.ts";
import { isSigning, overlapMs, type Endpoint } from "../../otp/operators/endpoint.ts";
import { eventTypes } from "../../otp/event-type.ts";
import type { RecentPost, RecentPosts } from "../../observe/recent-posts.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { ok } from "../../otp/reason.ts";
import {
  addEndpoint,
  disableEndpoint,
  enableEndpoint,
  removeEndpoint,
  rotateSecret,
} from "../../service/operators/endpoints.ts";
import type { EndpointQueue } from "../../store/events.ts";
import type { Store } from "../../store/store.ts";
import { stopwatchMs, type System } from "../../system.ts";
import { lacking, sees, tenantListed, tenantMeant, type Asker } from "./asker.ts";
import { durationOf, timeField, type HandlersOf } from "./handlers.ts";
import { badField, notFound, refuseAdmin } from "./refusal.ts";

export interface WebhookDependencies {
  readonly store: Store;
  readonly system: System;
  readonly keys: KeyRing;
  readonly post: Post;
  readonly recentPosts: RecentPosts;
  readonly isDevelopment: boolean;
  /** Whether events may be posted to an address. */
  readonly isAllowed: (address: string) => boolean;
}

const keepMaxMs = 30 * 24 * 3_600_000;

type WebhookRpcs =
  | "listWebhooks"
  | "createWebhook"
  | "testWebhook"
  | "rotateWebhook"
  | "enableWebhook"
  | "disableWebhook"
  | "removeWebhook";

export function webhookHandlers(dependencies: WebhookDependencies): HandlersOf<WebhookRpcs> {
  const { store, isDevelopment, isAllowed, recentPosts } = dependencies;
  const { find, listed, one } = createLooks(dependencies);

  /** Runs an act on an endpoint that is there for this admin, and gives how it is then. */
  async function changed(asker: Asker, id: string, act: () => Promise<boolean>) {
    if ((await find(asker, id)) === undefined || !(await act())) return notFound;
    const webhook = await one(asker, id);
    return webhook === undefined ? notFound : ok({ webhook });
  }

  return {
    async listWebhooks({ tenant }, asker) {
      const asked = tenantListed(asker, tenant);
      if (!asked.ok) return asked;
      if (asked.value !== undefined && (await store.registry.findTenant(asked.value)) === undefined) return notFound;
      return ok({ webhooks: await listed(asker, asked.value) });
    },

    async createWebhook({ tenant, url: text, types: named, showPhones }, asker) {
      if (showPhones && !asker.scopes.includes("admin.phones")) return lacking("admin.phones");
      const meant = tenantMeant(asker, tenant);
      if (!meant.ok) return meant;
      const url = checkEndpointUrl(text, isDevelopment, isAllowed);
      if (url === "malformed") return badField("url", "must be an https URL without a user in it");
      if (url === "not-public") return badField("url", "must lead to a public address");
      const types = eventTypes.filter((type) => named.includes(type));
      if (types.length < new Set(named).size) return badField("types", `must be of ${eventTypes.join(", ")}`);
      const made = await addEndpoint(dependencies, { tenant: meant.value, url, types, showPhones }, asker.author);
      if (made === "no-tenant") return notFound;
      if (made === "full") return refuseAdmin("TOO_MANY");
      const webhook = await one(asker, made.id);
      return webhook === undefined ? notFound : ok({ webhook, secret: made.secret.reveal() });
    },

    async testWebhook({ id }, asker) {
      if ((await find(asker, id)) === undefined) return notFound;
      const beganMs = stopwatchMs();
      const tried = await tryEndpoint(dependencies, id, asker.author);
      if (tried === undefined) return notFound;
      const { posted, isTaken } = tried;
      recentPosts.note(id, posted);
      const { status, detail } = answerTold(posted, asker);
      // How long it took tells an outsider of what is listening where.
      const duration = asker.tenant === undefined ? { duration: durationOf(stopwatchMs() - beganMs) } : {};
      return ok({ ok: isTaken, status, detail, ...duration });
    },

    async rotateWebhook({ id, keep }, asker) {
      const keepMs = keep === undefined ? overlapMs : durationMs(keep);
      if (!(keepMs >= 0 && keepMs <= keepMaxMs)) return badField("keep", "must be 0 seconds to 30 days");
      if ((await find(asker, id)) === undefined) return notFound;
      const made = await rotateSecret(dependencies, id, keepMs, asker.author);
      if (made === "unknown") return notFound;
      return made === "full" ? refuseAdmin("TOO_MANY") : ok({ secret: made.secret.reveal() });
    },

    enableWebhook: ({ id }, asker) => changed(asker, id, () => enableEndpoint({ store }, id, asker.author)),
    disableWebhook: ({ id }, asker) => changed(asker, id, () => disableEndpoint({ store }, id, asker.author)),

    async removeWebhook({ id }, asker) {
      if ((await find(asker, id)) === undefined) return notFound;
      return (await removeEndpoint({ store }, id, asker.author)) ? ok({}) : notFound;
    },
  };
}

/** How endpoints are found and shown. */
function createLooks({ store, recentPosts }: WebhookDependencies) {
  /** An endpoint that is there for this admin. */
  async function find(asker: Asker, id: string): Promise<Endpoint | undefined> {
    const endpoint = await store.events.findEndpoint(id);
    return endpoint !== undefined && sees(asker, endpoint.tenant) ? endpoint : undefined;
  }

  const told = (queue: EndpointQueue, asker: Asker) =>
    shown(queue, recentPosts.read(queue.endpoint.id), store.now(), asker);

  async function listed(asker: Asker, only: string | undefined) {
    const found = await store.events.listEndpoints();
    return found
      .filter(({ endpoint }) => sees(asker, endpoint.tenant) && (only === undefined || endpoint.tenant === only))
      .map((queue) => told(queue, asker));
  }

  /** One endpoint, which this admin sees. */
  async function one(asker: Asker, id: string) {
    const queue = await store.events.readQueue(id);
    return queue === undefined ? undefined : told(queue, asker);
  }

  return { find, listed, one };
}

/** What came back of a post. Why nothing did tells an outsider of what is where. */
function answerTold(posted: Posted, { tenant }: Asker): { readonly status: number; readonly detail: string } {
  if (posted.kind === "answered") return { status: posted.status, detail: "" };
  return { status: 0, detail: tenant === undefined ? posted.why : "" };
}

function shown({ endpoint, waiting, queue }: EndpointQueue, last: RecentPost | undefined, now: number, asker: Asker) {
  const { id, tenant, url, types, showPhones, createMs, disableMs, why, failingSinceMs, secrets } = endpoint;
  return {
    id,
    tenant,
    url,
    types: [...types],
    showPhones,
    ...timeField("createTime", createMs),
    ...timeField("disableTime", disableMs),
    disableReason: why ?? "",
    ...timeField("failingSinceTime", failingSinceMs),
    waiting: BigInt(waiting),
    secrets: secrets.filter((secret) => isSigning(secret, now)).length,
    ...(queue === undefined ? {} : { lag: durationOf(Math.max(0, now - queue.oldestMs)), tries: queue.tries }),
    ...timeField("nextTryTime", queue?.nextTryMs),
    ...(last === undefined ? {} : answerFields(last, asker)),
  };
}

function answerFields({ atMs, posted }: RecentPost, asker: Asker) {
  const { status, detail } = answerTold(posted, asker);
  return { ...timeField("lastTryTime", atMs), lastStatus: status, lastDetail: detail };
}
