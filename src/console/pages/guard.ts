/**
 * The guard of a tenant, on the page on fraud: whether it refuses what it finds, and who said so.
 */
import { GuardMode } from "../../../gen/otp/admin/v1/admin_service_pb.ts";
import { calling } from "../api.ts";
import { ask } from "../dialog.ts";
import { make, type Child } from "../dom.ts";
import * as format from "../format.ts";
import { may, type PageContext } from "../page.ts";
import { badge, button } from "../parts.ts";

interface Guard {
  /** `observe` or `enforce`. */
  readonly mode: string;
  /** Where it comes from, as a setting's. */
  readonly source: string;
  /** Prefixes that are suspected now, as far as a page has them, and messages to them that enforcing would have saved. */
  readonly suspected: number;
  readonly savedMessages: bigint;
}

interface GuardView {
  readonly context: PageContext;
  /** Empty for `default`, or the admin's own. */
  readonly tenant: string;
  readonly again: () => void;
}

function sourceOf(source: string): string {
  if (source === "tenant") return "The tenant's own setting.";
  return source === "default" ? "Nobody has set it: this is the default." : `From ${source}.`;
}

/** The mode that holds for the tenant looked at, and where it comes from. */
export async function readGuard({ context, tenant }: Omit<GuardView, "again">, signal: AbortSignal): Promise<Guard> {
  const asked = { tenant: tenant === "" ? "default" : tenant };
  const [{ tenants }, { suspects }] = await Promise.all([
    context.client.listTenants(asked, calling(signal)),
    context.client.listSuspects(asked, calling(signal)),
  ]);
  const found = tenants[0]?.settings.find(({ name }) => name === "fraud-guard" || name === "fraud_guard");
  const savedMessages = suspects.reduce((sum, each) => sum + each.savedMessages, 0n);
  return { mode: found?.value ?? "", source: found?.source ?? "", suspected: suspects.length, savedMessages };
}

/** What enforcing would do, by the numbers that are there. */
function effectOf({ suspected, savedMessages }: Guard): string {
  const known =
    suspected === 0
      ? "No prefix is suspected now: nothing changes until one is."
      : `${suspected === 1 ? "One prefix is" : `${suspected} prefixes are`} suspected now, of whose messages enforcing would have saved ${format.count(savedMessages)}.`;
  return `${known} Sends to a prefix are refused while it is suspected, from the next call on.`;
}

export function guardPart(guard: Guard, view: GuardView): Child {
  const { mode, source } = guard;
  const isEnforced = mode === "enforce";
  const { context, tenant, again } = view;
  const set = (wanted: GuardMode, title: string, text: string) =>
    ask(context, {
      title,
      text,
      doIt: title.replace("?", ""),
      act: async () => {
        await context.client.setGuard({ tenant, mode: wanted }, calling(context.left));
        context.say("It counts from the next call on.");
        again();
      },
    });
  return [
    make(
      "p",
      {},
      isEnforced ? badge("enforces", "good") : badge("only observes", "warn"),
      isEnforced
        ? " What it finds is refused: pumping gets 35 messages of a prefix, then none for an hour and longer."
        : " What it finds is noted and nothing is refused. Look at the suspects: what they say was saved is what enforcing would do.",
    ),
    source !== "" && make("p", { class: "hint" }, sourceOf(source)),
    may(context, "admin.write") &&
      // What it no longer refuses is the operator's to pay, so an admin of one tenant has it enforce and no more.
      (!isEnforced || context.session.tenant === "") &&
      make(
        "div",
        { class: "buttons" },
        isEnforced
          ? button("Only observe", () =>
              set(
                GuardMode.OBSERVE,
                "Only observe?",
                "Nothing is refused for its prefix any more. What would be is still listed here.",
              ),
            )
          : button("Enforce", () => set(GuardMode.ENFORCE, "Enforce?", effectOf(guard))),
        source === "tenant" &&
          button("Follow the service", () =>
            set(
              GuardMode.UNSPECIFIED,
              "Follow the service?",
              "The tenant's own setting is removed: OTP_FRAUD_GUARD holds again.",
            ),
          ),
      ),
  ];
}
