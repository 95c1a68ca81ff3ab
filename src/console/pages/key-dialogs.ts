/**
 * What is asked before a key is made, replaced or revoked.
 */
import { durationFromMs } from "@bufbuild/protobuf/wkt";
import type { ApiKey } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask, showOnce } from "../dialog.ts";
import * as format from "../format.ts";
import type { PageContext } from "../page.ts";
import type { Field } from "../parts.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const toldOnce = "This is the only time that it is shown: only a digest of it is stored.";

const kinds = [
  ["live", "Secret: for your servers"],
  ["test", "Test: sends nothing"],
  ["pub", "Publishable: for web pages and apps"],
  ["pubtest", "Publishable test"],
  ["admin", "Admin: for this console's service"],
] as const;

const words = (text: string) => text.split(/[\s,]+/).filter((each) => each !== "");

/** `of` is the tenant that is looked at; empty for all. */
export function createKey(context: PageContext, of: string, again: () => void): void {
  const isFree = context.session.tenant === "";
  const fields: readonly Field[] = [
    { name: "name", label: "Name", isRequired: true },
    { name: "kind", label: "Kind", options: kinds.filter(([kind]) => isFree || kind !== "admin") },
    ...(isFree
      ? [{ name: "tenant", label: "Tenant", value: of, hint: "Empty for default; of an admin key, for all." }]
      : []),
    { name: "scopes", label: "Scopes", hint: "Empty for what is usual for its kind." },
    {
      name: "origins",
      label: "Origins",
      hint: "Of a publishable key: where its pages are, such as https://example.com.",
    },
    { name: "channels", label: "Channels", hint: "Of a publishable key; empty for sms." },
    { name: "days", label: "Days it lives", type: "number", hint: "Empty for without an end." },
  ];
  ask(context, {
    title: "New key",
    text: "Give each application a key of its own, so that one can be revoked without the others.",
    doIt: "Make it",
    fields,
    act: async ({ name = "", kind = "", tenant = "", scopes = "", origins = "", channels = "", days = "" }) => {
      const { text } = await context.client.createApiKey(
        {
          name,
          kind,
          tenant,
          scopes: words(scopes),
          origins: words(origins),
          channels: words(channels),
          ...(days === "" ? {} : { lifetime: durationFromMs(Number(days) * dayMs) }),
        },
        calling(context.left),
      );
      again();
      showOnce(`The key ${name}`, toldOnce, text);
    },
  });
}

/** A key need not have a name. */
const nameOf = ({ name, id }: ApiKey): string => (name === "" ? id : name);

export function rotateKey(context: PageContext, key: ApiKey, again: () => void): void {
  const { id } = key;
  const name = nameOf(key);
  ask(context, {
    title: `Replace ${name}?`,
    text: "A new key with the same rights is made. The old one goes on for a while, so that both work meanwhile.",
    doIt: "Replace it",
    fields: [{ name: "hours", label: "Hours that the old one goes on", type: "number", value: "24", isRequired: true }],
    act: async ({ hours = "24" }) => {
      const keep = durationFromMs(Number(hours) * hourMs);
      const { text } = await context.client.rotateApiKey({ id, keep }, calling(context.left));
      again();
      showOnce(`The new key of ${name}`, toldOnce, text);
    },
  });
}

export function revokeKey(context: PageContext, key: ApiKey, again: () => void): void {
  const { id, tenant, lastUseTime } = key;
  const name = nameOf(key);
  const of = tenant === "" ? "all tenants" : `tenant ${tenant}`;
  const used = lastUseTime === undefined ? "was never used" : `was last used at ${format.time(lastUseTime)}`;
  ask(context, {
    title: `Revoke ${name}?`,
    text: `The key ${id} of ${of} ${used}. It is refused from the next call on. This cannot be undone.`,
    doIt: "Revoke it",
    isDanger: true,
    act: async () => {
      await context.client.revokeApiKey({ id }, calling(context.left));
      context.say(`${name} is revoked.`);
      again();
    },
  });
}
