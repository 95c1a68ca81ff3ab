/**
 * What operators ask about verifications: searches, one verification's story, and an end to it.
 */
import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import type {
  FindVerificationsRequest,
  GetVerificationResponseSchema,
  VerificationSummarySchema,
} from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { Delivery, State } from "../../../gen/otp/v1/otp_service_pb.ts";
import type { Audited, AuditAction } from "../../otp/operators/audit.ts";
import type { KeyRing } from "../../otp/keys/key-ring.ts";
import { maskPhone } from "../../otp/phone-number.ts";
import { ok } from "../../otp/reason.ts";
import { isSandbox, realTenantOf } from "../../otp/message/sandbox.ts";
import type { State as StateName } from "../../otp/state.ts";
import { cancelNoted } from "../../service/cancel.ts";
import { requestRef as refOf } from "../../otp/verification/verification.ts";
import {
  findByRef,
  findVerifications,
  tellStory,
  type Search,
  type Seen,
  type Story,
} from "../../service/operators/finding.ts";
import type { PhoneOf, Store } from "../../store/store.ts";
import type { System } from "../../system.ts";
import { lacking, tenantListed, type Asker } from "./asker.ts";
import { periodAsked, timeField, type HandlersOf } from "./handlers.ts";
import { phoneIn } from "./phones.ts";
import { badField, notFound, type AdminResult } from "./refusal.ts";

export interface VerificationDependencies {
  readonly store: Store;
  readonly keys: KeyRing;
  readonly system: Pick<System, "randomBytes">;
  readonly phoneOf: PhoneOf;
}

type Handlers = HandlersOf<"findVerifications" | "getVerification" | "cancelVerification">;

const pageDefault = 20;
const pageMax = 100;

export function verificationHandlers(dependencies: VerificationDependencies): Handlers {
  const { store, phoneOf } = dependencies;
  /** Before the act that it tells of: there is none without an entry. */
  const note = ({ author: by }: Asker, action: AuditAction, audited: Audited) =>
    store.registry.addAudit({ by, action }, audited);

  return {
    async findVerifications(request, asker) {
      const search = searchOf(request, asker);
      if (!search.ok) return search;
      if (request.showPhones && !asker.scopes.includes("admin.phones")) return lacking("admin.phones");
      const result = await findVerifications(dependencies, search.value);
      if (!result.ok) return result;
      const { found, nextToken } = result.value;
      if (request.showPhones && found.length > 0) {
        const seen = found.map(({ verification }) => refOf(verification.id));
        await note(asker, "phone.look", { tenant: search.value.tenant ?? "", subject: "search", after: { seen } });
      }
      return ok({
        verifications: found.map((each) => summary(each, request.showPhones)),
        nextPageToken: nextToken,
      });
    },

    async getVerification({ requestRef, showPhone }, asker) {
      if (showPhone && !asker.scopes.includes("admin.phones")) return lacking("admin.phones");
      const story = await tellStory(dependencies, requestRef, asker.tenant);
      if (story === undefined) return notFound;
      const { verification } = story;
      if (showPhone) {
        const subject = refOf(verification.id);
        await note(asker, "phone.look", { tenant: realTenantOf(verification.tenant), subject });
      }
      return ok(told(story, showPhone));
    },

    async cancelVerification({ requestRef }, asker) {
      const [found, other] = await findByRef(store, requestRef, asker.tenant);
      if (found === undefined || other !== undefined) return notFound;
      const { tenant, id } = found;
      const states = { before: { state: "PENDING" }, after: { state: "CANCELED" } };
      const audited = { tenant: realTenantOf(tenant), subject: refOf(id), ...states };
      const noted = { note: { by: asker.author, action: "verification.cancel" }, audited } as const;
      const decided = await cancelNoted({ store, phoneOf }, found, noted);
      if (decided.kind === "refused") return { ok: false, refusal: decided.refusal };
      const story = await tellStory(dependencies, id, asker.tenant);
      return story === undefined ? notFound : ok({ verification: summary(story, false) });
    },
  };
}

/** A verification and its story, as they are told. */
function told(story: Story, showsPhone: boolean): MessageInitShape<typeof GetVerificationResponseSchema> {
  const { verification, messages, diagnosis } = story;
  const { createMs, log } = verification;
  return {
    verification: summary(story, showsPhone),
    apiKeyId: verification.keyId,
    ...timeField("expireTime", verification.expireMs),
    attemptsMax: verification.attemptsMax,
    resends: verification.resends,
    locale: verification.locale,
    codeLength: verification.digits,
    messages: messages.map(({ message, reference }) => ({
      number: message.copy + 1,
      channel: message.channel,
      delivery: Delivery[message.delivery],
      provider: message.provider ?? "",
      providerMessageId: message.providerMessageId ?? "",
      reference,
      detail: message.detail ?? "",
      calls: message.calls,
    })),
    timeline: log.entries.map(({ kind, outcome, copy, provider, offsetMs }) => ({
      time: timestampFromMs(createMs + offsetMs),
      kind,
      outcome,
      message: copy + 1,
      provider: provider ?? "",
    })),
    timelineOmitted: log.omitted,
    diagnosis,
  };
}

function searchOf(request: FindVerificationsRequest, asker: Asker): AdminResult<Search> {
  const tenant = tenantListed(asker, request.tenant);
  if (!tenant.ok) return tenant;
  const phone = request.phone === "" ? undefined : phoneIn(request);
  if (phone !== undefined && !phone.ok) return phone;
  const state = stateNamed(request.state);
  if (!state.ok) return state;
  const period = periodAsked(request);
  if (!period.ok) return period;
  const { pageSize, requestRef, prefix, pageToken } = request;
  if (pageSize < 0 || pageSize > pageMax) return badField("page_size", `is 1 to ${pageMax}`);
  return ok({
    phone: phone?.value,
    ref: requestRef || undefined,
    prefix: prefix || undefined,
    tenant: tenant.value,
    state: state.value,
    ...period.value,
    max: pageSize === 0 ? pageDefault : pageSize,
    token: pageToken,
  });
}

const stateNames: readonly StateName[] = ["PENDING", "VERIFIED", "EXPIRED", "LOCKED", "CANCELED", "FAILED"];

function stateNamed(state: State): AdminResult<StateName | undefined> {
  if (state === State.UNSPECIFIED) return ok(undefined);
  const name = stateNames.find((each) => State[each] === state);
  return name === undefined ? badField("state", "is none that there is") : ok(name);
}

function summary(
  { verification, state, phone }: Seen,
  showsPhone: boolean,
): MessageInitShape<typeof VerificationSummarySchema> {
  const { id, tenant, region, delivery, channel, createMs, endMs, expireMs, attempts, purpose } = verification;
  const shown = showsPhone ? phone : phone && maskPhone(phone);
  return {
    requestRef: refOf(id),
    tenant: realTenantOf(tenant),
    phone: shown ?? "",
    country: region,
    state: State[state],
    delivery: Delivery[delivery],
    channel,
    createTime: timestampFromMs(createMs),
    ...timeField("endTime", endMs ?? (state === "EXPIRED" ? expireMs : null)),
    attempts,
    purpose,
    test: isSandbox(tenant),
  };
}
