/**
 * The RPCs of AdminService, a row each: what a key needs to call one. One without a row does not compile.
 */
import type { AdminService } from "../../../gen/otp/admin/v1/admin_service_pb.ts";

export type AdminMethods = (typeof AdminService)["method"];
export type AdminRpc = keyof AdminMethods;

export interface AdminAccess {
  /** What a key needs; undefined for any key. */
  readonly scope: "admin.read" | "admin.write" | undefined;
  /** Whether it is for admins that are bound to no tenant. */
  readonly forOperators?: true;
}

const read: AdminAccess = { scope: "admin.read" };
const write: AdminAccess = { scope: "admin.write" };

export const adminRpcs: Readonly<Record<AdminRpc, AdminAccess>> = {
  getSession: { scope: undefined },
  getOverview: read,
  getStats: read,
  watchActivity: read,
  findVerifications: read,
  getVerification: read,
  cancelVerification: write,
  resetPhone: write,
  erasePhone: write,
  listSuspects: read,
  explainDestination: read,
  listDestinations: read,
  block: write,
  allow: write,
  unblock: write,
  removeDestination: write,
  setGuard: write,
  listTenants: read,
  createTenant: { scope: "admin.write", forOperators: true },
  updateTenant: write,
  disableTenant: { scope: "admin.write", forOperators: true },
  enableTenant: { scope: "admin.write", forOperators: true },
  listApiKeys: read,
  createApiKey: write,
  rotateApiKey: write,
  revokeApiKey: write,
  listWebhooks: read,
  createWebhook: write,
  testWebhook: write,
  rotateWebhook: write,
  enableWebhook: write,
  disableWebhook: write,
  removeWebhook: write,
  // Providers serve all tenants alike.
  getProviders: { scope: "admin.read", forOperators: true },
  tryProvider: { scope: "admin.write", forOperators: true },
  listAudit: read,
};
