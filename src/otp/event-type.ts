/**
 * The types of events that a tenant's systems may ask for.
 */

export const eventTypes = [
  "verification.created",
  "verification.accepted",
  "verification.delivered",
  "verification.undelivered",
  "verification.verified",
  "verification.expired",
  "verification.locked",
  "verification.canceled",
  "verification.failed",
  "fraud.tripped",
  "spend.warning",
] as const;
export type EventType = (typeof eventTypes)[number];
