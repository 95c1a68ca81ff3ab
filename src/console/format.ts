/**
 * Numbers, times and amounts as people read them, in the browser's own language. What is not known is a dash.
 */
import { timestampDate, type Duration, type Timestamp } from "@bufbuild/protobuf/wkt";
import type { Money } from "../../gen/otp/admin/v1/admin_service_pb.ts";

export const dash = "–";

const whole = new Intl.NumberFormat();
const dateTime = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const dayOnly = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const hourOnly = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

/** The zone that times are told in, such as Europe/Amsterdam. */
export const zone = new Intl.DateTimeFormat().resolvedOptions().timeZone;

export function count(value: bigint | number): string {
  return whole.format(value);
}

/** A share of a whole, in percent; a dash where there is no whole. */
export function share(part: bigint | number, of: bigint | number): string {
  return Number(of) === 0 ? dash : percent(Number(part) / Number(of));
}

/** A share between 0 and 1, in percent. */
export function percent(value: number): string {
  return `${(value * 100).toFixed(value > 0 && value < 0.1 ? 1 : 0)} %`;
}

export function time(at: Timestamp | undefined): string {
  return at === undefined ? dash : dateTime.format(timestampDate(at));
}

/** Words of the service, with the times in them as people read them. */
export function told(text: string): string {
  return text.replaceAll(/\b\d{4}-\d\d-\d\dT[\d:.]+Z/g, (iso) => dateTime.format(new Date(iso)));
}

export function timeOfDay(at: Timestamp | undefined): string {
  return at === undefined ? dash : clock.format(timestampDate(at));
}

/** A day of a year that is known. */
export function day(at: Timestamp): string {
  return dayOnly.format(timestampDate(at));
}

export function hour(at: Timestamp): string {
  return hourOnly.format(timestampDate(at));
}

export function secondsOf({ seconds, nanos }: Duration): number {
  return Number(seconds) + nanos / 1e9;
}

export function duration(given: Duration | undefined): string {
  if (given === undefined) return dash;
  const seconds = secondsOf(given);
  if (seconds < 1) return `${Math.round(seconds * 1_000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 120) return `${Math.round(seconds)} s`;
  if (seconds < 7_200) return `${Math.round(seconds / 60)} min`;
  return seconds < 172_800 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} d`;
}

export function money(given: Money | undefined): string {
  return given === undefined || given.currency === "" ? dash : amount(Number(given.micros) / 1e6, given.currency);
}

/** An amount of a currency, in its units: to the hundredth, and where it would be nothing to the ten-thousandth. */
export function amount(value: number, currency: string): string {
  return inDigits(value, currency, Math.abs(value) < 0.01 && value !== 0 ? 4 : 2);
}

/** What one thing costs, to the ten-thousandth, so that prices stand below each other. */
export function price(value: number, currency: string): string {
  return inDigits(value, currency, 4);
}

function inDigits(value: number, currency: string, digits: number): string {
  const fraction = { minimumFractionDigits: digits, maximumFractionDigits: digits };
  return new Intl.NumberFormat(undefined, { style: "currency", currency, ...fraction }).format(value);
}

const regions = new Intl.DisplayNames(undefined, { type: "region", fallback: "code" });

/** A country by its name; what is no code of a country stays as it is. */
export function country(code: string): string {
  if (!/^[A-Z]{2}$/.test(code)) return code === "" ? dash : code;
  return regions.of(code) ?? code;
}

/** A constant's word, as a sentence has it: `STATE_VERIFIED` and `VERIFIED` are "verified". */
export function word(constant: string): string {
  return constant
    .replace(/^(STATE|DELIVERY)_/, "")
    .toLowerCase()
    .replaceAll(/[_-]/g, " ");
}

/** The name of an enum's value, as a sentence has it. One that this page does not know yet is "unknown". */
export function enumWord(values: Readonly<Record<string, number>>, value: number): string {
  return word(Object.entries(values).find(([, each]) => each === value)?.[0] ?? "unknown");
}
