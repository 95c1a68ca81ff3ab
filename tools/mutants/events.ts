/**
 * Mistakes about events: told twice or never, posted where they must not go, or saying what they must not say.
 */
import type { Mutant } from "./mutants.ts";

const events = "src/otp/event.ts";
const post = "src/delivery/post.ts";
const contract = ["test/store/sqlite.test.ts"];
const delivery = ["test/delivery/events"];

export const eventMutants: readonly Mutant[] = [
  {
    name: "whole phone for everyone",
    breaks: "numbers go out that the tenant did not ask for",
    file: events,
    text: `phone: showPhones ? phone : maskPhone(phone)`,
    replacement: `phone`,
    suites: delivery,
  },
  {
    name: "every report is news",
    breaks: "an acceptance that is noted twice is told twice",
    file: events,
    text: `outcomeOf(message.before) !== became`,
    replacement: `true`,
    suites: contract,
  },
  {
    name: "undelivered while it goes on",
    breaks: "a tenant gives up on an SMS that another provider is about to send",
    file: events,
    text: `(delivery === "UNDELIVERED" || delivery === "REJECTED") && dueMs === null`,
    replacement: `delivery === "UNDELIVERED" || delivery === "REJECTED" || delivery === "QUEUED"`,
    suites: contract,
  },
  {
    name: "silent sweep",
    breaks: "nobody hears of a verification that nobody asks about any more",
    file: "src/store/sweep.ts",
    text: `const isHeard = await engine.hasEndpoints();`,
    replacement: `const isHeard = false;`,
    suites: contract,
  },
  {
    name: "events of everyone to everyone",
    breaks: "one tenant hears of another's users",
    file: "src/store/sqlite/statements.ts",
    text: `WHERE e.tenant = ? AND e.disable_ms IS NULL AND`,
    replacement: `WHERE (e.tenant = ? OR true) AND e.disable_ms IS NULL AND`,
    suites: contract,
  },
  {
    name: "event without its act",
    breaks: "an event tells of what was taken back",
    file: "src/store/sqlite/unit-of-work.ts",
    text: `    putEvent(this.#sql, event, this.now);`,
    replacement: `    setImmediate(() => putEvent(this.#sql, event, this.now));`,
    suites: contract,
  },
  {
    name: "claim without a lease",
    breaks: "an event is posted over and over while its first POST is under way",
    file: "src/store/sqlite/events.ts",
    text: `sql.putEventDue.run(row.tries, now + eventLeaseMs, row.endpoint_id, row.id);`,
    replacement: ``,
    suites: contract,
  },
  {
    name: "an endpoint's key is dropped",
    breaks: "after the old master key is taken out of the list no event can be signed",
    file: "src/store/sqlite/statements.ts",
    text: `OR EXISTS (SELECT 1 FROM webhook_endpoints WHERE kid = @kid)`,
    replacement: ``,
    suites: contract,
  },
  {
    name: "address of the name not looked at",
    breaks: "a tenant reads the cloud's metadata through a name that leads there",
    file: post,
    text: `if (!addresses.every(({ address }) => isAllowed(address)))`,
    replacement: `if (family !== 0 && !isAllowed(host))`,
    suites: delivery,
  },
  {
    name: "resolved again for the connection",
    breaks: "a name that leads elsewhere the second time reaches what the first look refuses",
    file: post,
    text: `      lookup: checked,
`,
    replacement: ``,
    suites: delivery,
  },
  {
    name: "410 is one more failure",
    breaks: "an endpoint that wants nothing any more is asked for three days",
    file: "src/delivery/event-worker.ts",
    text: `if (posted.status === 410) return "gone";`,
    replacement: ``,
    suites: delivery,
  },
  {
    name: "signed with the newest secret alone",
    breaks: "a receiver that has not been told of the new secret refuses everything",
    file: "src/otp/endpoint.ts",
    text: `endpoint.secrets.filter((secret) => isSigning(secret, now))`,
    replacement: `endpoint.secrets.slice(0, 1)`,
    suites: delivery,
  },
  {
    name: "old secrets sign for ever",
    breaks: "whoever has a secret that was rotated away forges events",
    file: "src/otp/endpoint.ts",
    text: `return endMs === null || now < endMs;`,
    replacement: `return true;`,
    suites: delivery,
  },
  {
    name: "stop counts as a failure",
    breaks: "every restart puts off what is under way",
    file: "src/delivery/event-worker.ts",
    text: `if (stopping && posted.kind === "unanswered")`,
    replacement: `if (posted.kind === "answered" && posted.status === 0)`,
    suites: delivery,
  },
  {
    name: "one endpoint takes all places",
    breaks: "an endpoint that hangs holds up every other tenant's events",
    file: "src/delivery/event-worker.ts",
    text: `perEndpointMax: postsPerEndpointMax,`,
    replacement: `perEndpointMax: postsMax,`,
    suites: delivery,
  },
];
