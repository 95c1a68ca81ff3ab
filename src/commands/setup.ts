/**
 * What commands share that need more than the database: the whole configuration, the database's keys, and the tenant that the
 * command line names.
 */
import { parseConfig, type Config, type Parsed } from "../config/config.ts";
import { readTenant } from "../config/tenant-settings.ts";
import { existingMasterKey } from "../master-key.ts";
import { hiddenCharacter } from "../otp/hidden-characters.ts";
import { createKeyRing, type KeyRing } from "../otp/keys/key-ring.ts";
import { createChargeOf } from "../otp/decisions/pricing.ts";
import { noCharge, type ChargeOf } from "../otp/operators/statistics.ts";
import { isTenantName, type Tenant, type TenantRecord } from "../otp/operators/tenant.ts";
import { createTenants } from "../service/callers/tenants.ts";
import { phoneRefs } from "../service/phone-refs.ts";
import { MasterKeyMismatch } from "../store/registry.ts";
import type { PhoneOf, Store } from "../store/store.ts";
import type { Instant } from "../system.ts";
import { Misused, readText, Unusable, valueOf } from "./command.ts";

/** The configuration as `serve` reads it. */
export function configuration(): Config {
  return valueOf("The configuration has faults", parsed());
}

function parsed(): Parsed<Config> {
  return parseConfig(process.env, readText);
}

const noMasterKey =
  "There is no master key: set OTP_MASTER_KEY or OTP_MASTER_KEY_FILE as the service has it, whose environment a command does not get; or, in development, start the service once, which makes one for a new database.";

/** The keys of the configuration, or of a development setup. */
export function keyRingOf(config: Config): KeyRing {
  const ring = keysAtHand(config);
  if (ring === undefined) throw new Unusable(noMasterKey);
  return ring;
}

/** The same where they are those of the database: with others nothing would be found of a number, and that would be told. */
export async function fittingKeys(store: Store, config: Config): Promise<KeyRing> {
  const ring = keyRingOf(config);
  try {
    await store.registry.judgeMasterKeys(ring.all);
  } catch (error) {
    if (!(error instanceof MasterKeyMismatch)) throw error;
    throw new Unusable(`OTP_MASTER_KEY: ${error.message}. Nothing was done.`, { cause: error });
  }
  return ring;
}

/**
 * The keys, for a command that can do without: undefined when the configuration has faults, there is no key, or it is not the
 * database's.
 */
export async function keysIfAny(store: Store): Promise<KeyRing | undefined> {
  const config = parsed();
  const ring = config.ok ? keysAtHand(config.value) : undefined;
  if (ring === undefined) return undefined;
  try {
    await store.registry.judgeMasterKeys(ring.all);
    return ring;
  } catch (error) {
    if (error instanceof MasterKeyMismatch) return undefined;
    throw error;
  }
}

function keysAtHand({ dataFolder, masterKeys }: Config): KeyRing | undefined {
  if (masterKeys !== undefined) return createKeyRing(masterKeys);
  const own = existingMasterKey(dataFolder);
  return own === undefined ? undefined : createKeyRing([own]);
}

/** A valid name for a tenant; else ends the command. */
export function tenantName(text: string): string {
  if (isTenantName(text)) return text;
  const odd = hiddenCharacter(text);
  const rule = "A tenant's name has 1 to 40 lower-case letters, digits and hyphens, and does not begin with a hyphen";
  throw new Unusable(odd === undefined ? `${rule}.` : `${rule}: ${odd} is in this one.`);
}

/** The date or time in UTC of an option, if it was given; else ends the command. */
export function instantOf(option: string, text: string | undefined): Instant | undefined {
  if (text === undefined) return undefined;
  const form = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z)?$/;
  const instant = form.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(instant)) throw new Misused(`${option} must be a time such as 2026-01-31 or 2026-01-31T15:00Z.`);
  return instant;
}

/** The tenant of this name; else ends the command. */
export async function findTenant(store: Store, name: string): Promise<TenantRecord> {
  const record = await store.registry.findTenant(tenantName(name));
  if (record === undefined) throw noTenant(name);
  return record;
}

/** The tenant of this name as a server reads it; else ends the command. */
export async function tenantAsRead(store: Store, name: string, config: Config): Promise<Tenant> {
  return readTenant(await findTenant(store, name), config).tenant;
}

export function noTenant(name: string): Unusable {
  return new Unusable(`There is no tenant ${name}: otpd tenants list shows those there are.`);
}

/** What messages take, for commands that sum or show sums. */
export interface Charges {
  readonly chargeOf: ChargeOf;
  /** Takes up the tenants, whose texts decide. To be awaited before anything is summed. */
  learn(store: Store): Promise<void>;
}

/** As a server of this configuration reckons. Where it has faults, messages are counted without their segments and cost. */
export function chargesAtHand(): Charges {
  const config = parsed();
  let chargeOf = noCharge;
  return {
    chargeOf: (sent) => chargeOf(sent),
    async learn(store) {
      if (!config.ok) return;
      const read = (record: Pick<TenantRecord, "id" | "settings" | "disableMs">) =>
        readTenant(record, config.value).tenant;
      const { tenantOf, refresh } = createTenants({ store, read });
      await refresh();
      chargeOf = createChargeOf({ prices: config.value.prices, tenantOf });
    },
  };
}

/**
 * Finds where the phones of verifications are kept, for a command that can do without: undefined when the configuration has
 * faults or there is no key.
 */
export function phonesAtHand(): PhoneOf | undefined {
  const config = parsed();
  if (!config.ok) return undefined;
  const ring = keysAtHand(config.value);
  if (ring === undefined) return undefined;
  // Tenants' own settings do not matter here.
  const phoneOf = phoneRefs(ring, (id) => readTenant({ id, settings: "{}", disableMs: null }, config.value).tenant);
  return (verification) => {
    const ref = phoneOf(verification);
    // The key is another database's, or was removed from the list: no number can be read.
    return ring.find(verification.kid) === undefined ? { ...ref, prefix: undefined } : ref;
  };
}
