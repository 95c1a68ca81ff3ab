/**
 * The types of events that a tenant's systems may ask for. Stored by position: append only.
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
  "fraud.limited",
] as const;
export type EventType = (typeof eventTypes)[number];
