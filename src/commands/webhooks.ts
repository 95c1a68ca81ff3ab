/**
 * `otpd webhooks`: where a tenant's events are posted, and with which secrets they are signed.
 */
import { parseDurationMs } from "../config/shapes.ts";
import { checkEndpointUrl } from "../delivery/endpoint-url.ts";
import { createPost, type Posted } from "../delivery/post.ts";
import { eventAddresses } from "../delivery/public-address.ts";
import { tryEndpoint } from "../delivery/try-endpoint.ts";
import { commandLine } from "../otp/operators/audit.ts";
import { endpointsMax, isSigning, overlapMs, type Endpoint } from "../otp/operators/endpoint.ts";
import { eventTypes, type EventType } from "../otp/event-type.ts";
import {
  addEndpoint,
  disableEndpoint,
  enableEndpoint,
  expireSecrets,
  removeEndpoint,
  rotateSecret,
  type IssuedSecret,
} from "../service/operators/endpoints.ts";
import type { Store } from "../store/store.ts";
import { timeOf } from "../system.ts";
import {
  flag,
  Misused,
  onlyArgument,
  parseArgs,
  say,
  sayList,
  single,
  tenantOption,
  Unusable,
  withStore,
  type Commands,
} from "./command.ts";
import { configuration, findTenant, fittingKeys, noTenant } from "./setup.ts";

const keepDaysMax = 30;

export const webhookCommands: Commands = {
  "webhooks add": {
    summary: "post a tenant's events to a URL",
    help: `Usage: otpd webhooks add URL [--tenant NAME] [--events LIST] [--show-phones] [--json]

Posts what happens from now on to an https URL, signed as Standard Webhooks prescribes (docs/webhooks.md), and prints the
secret, this once. A tenant has at most ${endpointsMax} URLs.

  --tenant NAME   whose events; default unless given
  --events LIST   what to tell of; all unless given, of
${eventTypes.map((type) => `                    ${type}`).join("\n")}
  --show-phones   whole numbers instead of masked ones
  --json          print {"id","secret","tenant","url"}`,
    run: add,
  },
  "webhooks list": {
    summary: "list where events are posted",
    help: `Usage: otpd webhooks list [--tenant NAME] [--json]

Lists the endpoints, whether they take what they are sent, and how many events wait for each: since when, and after how many
tries.

  --tenant NAME   only this tenant's
  --json          print them as a JSON array`,
    run: list,
  },
  "webhooks rotate-secret": {
    summary: "give an endpoint a new secret",
    help: `Usage: otpd webhooks rotate-secret ID [--keep TIME] [--json]

Makes a new secret and prints it, this once. Until the time is over each event is signed with the old one too.

  --keep TIME   how long the old one still signs, such as 24h, 0s to ${keepDaysMax}d; 24h unless given
  --json        print {"id","secret"}`,
    run: rotate,
  },
  "webhooks expire-secret": {
    summary: "sign with an endpoint's newest secret alone",
    help: `Usage: otpd webhooks expire-secret ID

Ends every secret of the endpoint but the newest, at once.`,
    run: (args) =>
      changed(args, (store, id) => expireSecrets({ store }, id, commandLine), "signs with its newest secret alone"),
  },
  "webhooks enable": {
    summary: "post to an endpoint again",
    help: `Usage: otpd webhooks enable ID

Posts to an endpoint that was disabled or fails: at once what still waits for it, and what happens from now on.`,
    run: (args) => changed(args, (store, id) => enableEndpoint({ store }, id, commandLine), "is enabled"),
  },
  "webhooks disable": {
    summary: "post to an endpoint no more",
    help: `Usage: otpd webhooks disable ID

Stops posting to an endpoint. What happens meanwhile is not kept for it, and what waits is dropped as it comes due.`,
    run: (args) => changed(args, (store, id) => disableEndpoint({ store }, id, commandLine), "is disabled"),
  },
  "webhooks remove": {
    summary: "forget an endpoint",
    help: `Usage: otpd webhooks remove ID

Forgets an endpoint, its secrets and what waits for it.`,
    run: (args) => changed(args, (store, id) => removeEndpoint({ store }, id, commandLine), "is removed"),
  },
  "webhooks test": {
    summary: "post a test event now",
    help: `Usage: otpd webhooks test ID

Posts an event of the type webhook.test to the endpoint, once, from this machine, and tells what was answered.`,
    run: test,
  },
};

const wantsId = "Give the id of one endpoint: otpd webhooks list shows them.";

async function add(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { tenant: tenantOption, events: { type: "string" }, "show-phones": flag, json: flag },
    allowPositionals: true,
  });
  const text = single(positionals, "Give one URL.");
  const types = values.events === undefined ? [] : typesOf(values.events);
  const config = configuration();
  const isDevelopment = config.environment === "development";
  const url = checkEndpointUrl(text, isDevelopment, eventAddresses(isDevelopment, config.eventNetworks));
  if (url === "malformed") {
    throw new Unusable(
      "URL must begin with https:// and have no user in it (http only for this machine, in development).",
    );
  }
  if (url === "not-public") {
    throw new Unusable(
      `${new URL(text).href} would take no event: its address is not public. OTP_EVENT_NETWORKS names networks of yours that may be posted to.`,
    );
  }
  await withStore(async (store, system) => {
    const keys = await fittingKeys(store, config);
    const { id: tenant } = await findTenant(store, values.tenant);
    const spec = { tenant, url, types, showPhones: values["show-phones"] };
    const made = await addEndpoint({ store, system, keys }, spec, commandLine);
    if (made === "no-tenant") throw noTenant(tenant);
    if (made === "full") throw new Unusable(`${tenant} has ${endpointsMax} endpoints already: remove one first.`);
    if (values.json) say(JSON.stringify({ id: made.id, secret: made.secret.reveal(), tenant, url: url.href }));
    else say(`${shown(made)}\n\nid ${made.id}, of ${tenant}, ${types.length === 0 ? "all events" : types.join(", ")}`);
  });
}

async function rotate(args: string[]): Promise<void> {
  const { values, positionals } = parseArgs({
    args,
    options: { keep: { type: "string" }, json: flag },
    allowPositionals: true,
  });
  const id = single(positionals, wantsId);
  const keepMs = values.keep === undefined ? overlapMs : durationOf(values.keep);
  const config = configuration();
  await withStore(async (store, system) => {
    const keys = await fittingKeys(store, config);
    const made = await rotateSecret({ store, system, keys }, id, keepMs, commandLine);
    if (made === "unknown") throw unknown(id);
    if (made === "full")
      throw new Unusable("Three secrets sign already: otpd webhooks expire-secret ends the old ones.");
    if (values.json) say(JSON.stringify({ id, secret: made.secret.reveal() }));
    else
      say(`${shown(made)}\n\nEarlier ones sign ${keepMs === 0 ? "no more" : `until ${timeOf(store.now() + keepMs)}`}.`);
  });
}

async function list(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { tenant: { type: "string" }, json: flag } });
  await withStore(async (store) => {
    const only = values.tenant === undefined ? undefined : (await findTenant(store, values.tenant)).id;
    const found = (await store.events.listEndpoints()).filter(
      ({ endpoint }) => only === undefined || endpoint.tenant === only,
    );
    const now = store.now();
    const listed = found.map(({ endpoint: e, waiting, queue }) => ({
      id: e.id,
      tenant: e.tenant,
      url: e.url,
      events: e.types,
      show_phones: e.showPhones,
      state: stateOf(e),
      waiting,
      waiting_since: timeOf(queue?.oldestMs ?? null),
      tries: queue?.tries ?? 0,
      next_try_time: timeOf(queue?.nextTryMs ?? null),
      secrets: e.secrets.filter((secret) => isSigning(secret, now)).length,
      create_time: timeOf(e.createMs),
      disable_time: timeOf(e.disableMs),
    }));
    sayList(listed, values.json, "There are no endpoints. Make one: otpd webhooks add https://shop.example/otp", {
      ID: (e) => e.id,
      TENANT: (e) => e.tenant,
      STATE: (e) => e.state,
      WAITING: (e) => `${e.waiting}`,
      SINCE: (e) => e.waiting_since ?? "-",
      TRIES: (e) => `${e.tries}`,
      SECRETS: (e) => `${e.secrets}`,
      PHONES: (e) => (e.show_phones ? "whole" : "masked"),
      EVENTS: (e) => e.events.join(",") || "all",
      URL: (e) => e.url,
    });
  });
}

async function test(args: string[]): Promise<void> {
  const id = onlyArgument(args, wantsId);
  const config = configuration();
  const isAllowed = eventAddresses(config.environment === "development", config.eventNetworks);
  await withStore(async (store, system) => {
    const keys = await fittingKeys(store, config);
    const tried = await tryEndpoint({ store, system, keys, post: createPost({ isAllowed }) }, id, commandLine);
    if (tried === undefined) throw unknown(id);
    const { endpoint, posted, isTaken } = tried;
    if (!isTaken) {
      throw new Unusable(`${endpoint.url} did not take the test event: ${wordsOf(posted)}.`);
    }
    say(`${endpoint.url} took the test event: ${wordsOf(posted)}.`);
  });
}

/** Changes one endpoint. */
async function changed(
  args: string[],
  change: (store: Store, id: string) => Promise<boolean>,
  done: string,
): Promise<void> {
  const id = onlyArgument(args, wantsId);
  await withStore(async (store) => {
    if (!(await change(store, id))) throw unknown(id);
    say(`${id} ${done}.`);
  });
}

function unknown(id: string): Unusable {
  return new Unusable(`There is no endpoint with the id ${id.slice(0, 24)}.`);
}

function shown({ secret }: IssuedSecret): string {
  return `The secret, shown this once:\n\n  ${secret.reveal()}`;
}

function wordsOf(posted: Posted): string {
  return posted.kind === "answered" ? `HTTP ${posted.status}` : posted.why;
}

function stateOf({ disableMs, why, failingSinceMs }: Endpoint): string {
  if (disableMs !== null) return `disabled (${why})`;
  return failingSinceMs === null ? "enabled" : "failing";
}

function typesOf(text: string): EventType[] {
  const wanted = text.split(",").map((type) => type.trim());
  const isKnown = wanted.every((type) => eventTypes.some((known) => known === type));
  if (!isKnown) throw new Misused(`--events must be a list of ${eventTypes.join(",")}.`);
  return eventTypes.filter((type) => wanted.includes(type));
}

function durationOf(text: string): number {
  const ms = /^0+[smhd]$/.test(text) ? 0 : parseDurationMs(text);
  if (ms === undefined || ms > keepDaysMax * 24 * 3_600_000) {
    throw new Misused(`--keep must be a time such as 24h, 0s to ${keepDaysMax}d.`);
  }
  return ms;
}
