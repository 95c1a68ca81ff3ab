/**
 * Mistakes about who gets a message and how many go on the bill: the lists of destinations, the pumping guard's blocks and the
 * daily cap.
 */
import type { Mutant } from "./mutant.ts";

const store = ["test/store/sqlite.test.ts"];

export const spendingMutants: readonly Mutant[] = [
  {
    name: "limit value stored in clear",
    breaks: "whoever has the database reads which users a tenant has",
    place: "src/otp/limits/named-limit.ts#limitKeysOf",
    text: `hmac(key.namedLimit, id, name, value).subarray(0, indexBytes)`,
    replacement: `Buffer.from(name + value + "-".repeat(indexBytes))`,
    suites: ["test/server/limit-keys.test.ts"],
  },
  {
    name: "limit value kept as a phone's",
    breaks: "whoever has the database and one key relates users to phones",
    place: "src/otp/limits/named-limit.ts#limitKeysOf",
    text: `hmac(key.namedLimit, id, name, value)`,
    replacement: `hmac(key.phoneIndex, id, value)`,
    suites: ["test/otp/limits/named-limit.test.ts"],
  },
  {
    name: "limit spent though refused",
    breaks: "a user whom the phone's limits or the cap refused has no sends left of his own",
    place: "src/otp/decisions/spending.ts#spendFor",
    text: `if (!counted.counted) return { allowed: false, decided: spendLimited(counted) };`,
    replacement: `if (!counted.counted) {
      const { writes, result } = spendLimited(counted);
      return { allowed: false, decided: { result, writes: { ...writes, limitTats: named.tats } } };
    }`,
    suites: store,
  },
  {
    name: "limit spent beside one that refuses",
    breaks: "a send that is refused uses up the other limits that it names",
    place: "src/otp/limits/named-limit.ts#spendNamed",
    text: `if (!isCorrected) return { allowed: false, refusal };`,
    replacement: `if (!isCorrected) {
    return { allowed: false, refusal, tats: spendings.map((each, i) => each.tatsMs ?? tats[i] ?? []) };
  }`,
    suites: ["test/otp/limits/named-limit.test.ts"],
  },
  {
    name: "limits reset by a rotation",
    breaks: "who has used up his sends has as many again with every new master key",
    place: "src/otp/limits/named-limit.ts#limitKeysOf",
    text: `keys.all.map(`,
    replacement: `[keys.current].map(`,
    suites: store,
  },
  {
    name: "limit spent for nothing",
    breaks: "an outage of the providers uses up a user's sends, none of which he got",
    place: "src/otp/decisions/settlement.ts#limitsBack",
    text: `if (limits === undefined) return {};`,
    replacement: `if (limits === undefined || limitTats.length > 0) return {};`,
    suites: store,
  },
  {
    name: "limit back for what was sent",
    breaks: "who cancels what has arrived is not counted",
    place: "src/otp/decisions/settlement.ts#concluded",
    text: `message.maybeSent ? withoutSpentLimits(moved) : moved`,
    replacement: `moved`,
    suites: store,
  },
  {
    name: "blocks of outcomes",
    breaks: "every rush of people ends in failures alone, and blocks its prefix",
    place: "src/otp/limits/pumping-guard.ts#judgeSend",
    text: `const isOfBlock = record.sent < blockSends;`,
    replacement: `const isOfBlock = true;`,
    suites: ["test/otp/limits/pumping-guard.test.ts"],
  },
  {
    name: "resend promised in vain",
    breaks: "a caller waits for a resend that is refused when it is due, while the code it has runs out",
    place: "src/otp/verification/policy.ts#resendsLeft",
    text: `if (atMs > lastMs || !spent.allowed) break;`,
    replacement: `if (now > lastMs || !spent.allowed) break;`,
    suites: ["test/otp/decisions/resends.test.ts"],
  },
  {
    name: "resend promised against the limits",
    breaks: "a caller waits for a resend that the number's own limits refuse for hours",
    place: "src/otp/verification/policy.ts#resendsLeft",
    text: `const limits = limitsFor(policy, tatsMs);`,
    replacement: `const limits = limitsFor(policy, []);`,
    suites: ["test/otp/decisions/resends.test.ts"],
  },
  {
    name: "second resend promised for nothing",
    breaks: "of two resends that are promised the number's limits take one",
    place: "src/otp/verification/policy.ts#resendsLeft",
    text: `tats = spent.tatsMs;`,
    replacement: ``,
    suites: ["test/otp/decisions/resends.test.ts"],
  },
  {
    name: "promise without the limits",
    breaks: "a send promises a resend that its own number has no room for",
    place: "src/service/hand-over.ts#createHandOver",
    text: `policy, store.now(), job.tatsMs);`,
    replacement: `policy, store.now(), []);`,
    suites: ["test/server/scenarios.test.ts"],
  },
  {
    name: "get without the limits",
    breaks: "whoever asks anew is told of a resend that is refused",
    place: "src/service/act.ts#sentNow",
    text: `isLimited ? (await`,
    replacement: `isLimited && now < 0 ? (await`,
    suites: ["test/server/scenarios.test.ts"],
  },
  {
    name: "pass for another number",
    breaks: "one solved bot check texts any number",
    place: "src/otp/decisions/bot-pass.ts#passOf",
    text: `return mine !== undefined && Buffer.compare(mine.mac, record.fingerprint) === 0 ? record.expireMs : undefined;`,
    replacement: `return mine !== undefined ? record.expireMs : undefined;`,
    suites: store,
  },
  {
    name: "pass renewed by failing",
    breaks: "one solved bot check is good for as long as providers fail",
    place: "src/otp/decisions/bot-pass.ts#decidePassBack",
    text: `newPass(claim, untilMs, view.now)`,
    replacement: `newPass(claim, Math.max(untilMs, view.now + passKeptMs), view.now)`,
    suites: store,
  },
  {
    name: "pass kept beside the send",
    breaks: "one solved bot check is good for more than one accepted send",
    place: "src/otp/decisions/sending.ts#decideSend",
    text: `...(claim && recordOf(claim, verification.id, null, now)),`,
    replacement: `...(claim && admission.passUntilMs === undefined ? recordOf(claim, verification.id, null, now) : {}),`,
    suites: store,
  },
  {
    name: "pass forgotten",
    breaks: "a send that is to be retried unchanged fails the bot check that it has passed",
    place: "src/service/callers/bot-gate.ts#pass",
    text: `if (claim !== undefined) await store`,
    replacement: `if (claim !== undefined && token.reveal() === "") await store`,
    suites: store,
  },
  {
    name: "resend to a blocked number",
    breaks: "a number that was blocked while its request is open goes on costing money",
    place: "src/otp/decisions/resending.ts#decideResend",
    text: `if (view.verdict === "block") return nothing({ kind: "refused", refusal: blocked });`,
    replacement: ``,
  },
  {
    name: "shortest entry counts",
    breaks: "a customer's number in a blocked range cannot be allowed",
    place: "src/store/sqlite/statements.ts#tenantStatements",
    text: `ORDER BY length(prefix) DESC LIMIT 1`,
    replacement: `ORDER BY length(prefix) LIMIT 1`,
  },
  {
    name: "stale plans have the last word",
    breaks: "a range that is newer than the metadata gets no code, whatever the operator says",
    place: "src/otp/verification/destination.ts#refusalOf",
    text: `if (isSandbox(tenant) || verdict === "allow") return undefined;
  const objection = objectionTo(phone, channel);
  if (objection !== undefined) return objection;`,
    replacement: `const objection = objectionTo(phone, channel);
  if (objection !== undefined) return objection;
  if (isSandbox(tenant) || verdict === "allow") return undefined;`,
  },
  {
    name: "allowed and guarded",
    breaks: "a number that the operator allows waits for the guard's hour to pass",
    place: "src/otp/decisions/spending.ts#askGuard",
    text: `if (prefix === undefined || verdict === "allow")`,
    replacement: `if (prefix === undefined)`,
    suites: ["test/otp/verification/destination.test.ts"],
  },
  {
    name: "one message over the cap",
    breaks: "the bill of a day is not what the operator said",
    place: "src/otp/verification/daily-cap.ts#countMessage",
    text: `const isLeft = daily.count + amount <= max;`,
    replacement: `const isLeft = daily.count + amount <= max + 1;`,
  },
  {
    name: "country cap off by one",
    breaks: "one message more goes to a country than the operator said, and one to a country that is closed",
    place: "src/otp/decisions/spending.ts#capsOf",
    text: `[{ kind: countryKind(region), max: countryMax }]`,
    replacement: `[{ kind: countryKind(region), max: countryMax + 1 }]`,
    suites: store,
  },
  {
    name: "reserved money given back twice",
    breaks: "a message that never left lets two others through, and the bill is over the cap",
    place: "src/otp/decisions/settlement.ts#concluded",
    text: `const uncountedMessage: Message = { ...message, ...nothingTaken };`,
    replacement: `const uncountedMessage: Message = { ...message, ...nothingTaken, reserved: before.reserved };
  if (days !== undefined) days = withGivenBack(days, givenBack(before, verification.region, now));`,
    suites: store,
  },
  {
    name: "another amount given back than was reserved",
    breaks: "a price that changes takes the bill over the cap on money",
    place: "src/otp/decisions/spending.ts#givenBack",
    text: `(message.reserved?.amount ?? 0)`,
    replacement: `1 + (message.reserved?.amount ?? 0)`,
    suites: store,
  },
  {
    name: "sent without a price",
    breaks: "what nobody knows the price of goes on the bill under a cap on money",
    place: "src/otp/decisions/spending.ts#countAll",
    text: `if (amount === undefined) return`,
    replacement: `if (amount === undefined) continue;
    if (amount < 0) return`,
    suites: store,
  },
  {
    name: "counts of a country not locked",
    breaks: "each instance counts a country's messages by itself, and money too",
    place: "src/store/postgres/load.ts#dayLock",
    text: `return kind === "messages" ? digest("day", tenant) : digest("day", tenant, kind);`,
    replacement: `return kind === "messages" ? digest("day", tenant) : digest("day", tenant, kind, String(Math.random()));`,
    suites: ["test/postgres/caps.test.ts"],
  },
  {
    name: "a call after a crash is free",
    breaks: "SMS that were sent twice are counted once",
    place: "src/otp/decisions/spending.ts#takenForNextCall",
    text: `return delivery === "QUEUED" ? { countedDay, countryDay, reserved } : nothingTaken;`,
    replacement: `return delivery !== "ACCEPTED" ? { countedDay, countryDay, reserved } : nothingTaken;`,
  },
  {
    name: "a call after a lost answer is free",
    breaks: "a provider that loses its answers takes the bill over the cap",
    place: "src/otp/message/message.ts#failed",
    text: `...(outcome.kind === "ambiguous" ? usedUp : {}),`,
    replacement: ``,
  },
  {
    name: "worker without a cap",
    breaks: "second calls are on the bill and not in the count",
    place: "src/delivery/worker.ts#claim",
    text: `store.claimMessages(Math.min(queue.free(), callsMax), phoneOf, decideLate, billOf)`,
    replacement: `store.claimMessages(Math.min(queue.free(), callsMax), phoneOf, decideLate, () => ({ caps: [], price: () => 0 }))`,
  },
  {
    name: "warned at every send",
    breaks: "the log is full of one warning",
    place: "src/otp/verification/daily-cap.ts#countMessage",
    text: `const isNew = share > warnedOf(daily, max);`,
    replacement: `const isNew = share > 0;`,
  },
  {
    name: "a raised cap is reached without a word",
    breaks: "an operator who raised the cap hears of the next one when sends are refused",
    place: "src/otp/verification/daily-cap.ts#countMessage",
    text: `const isNew = share > warnedOf(daily, max);`,
    replacement: `const isNew = share > daily.warned;`,
    suites: store,
  },
];
