/**
 * A store that tells, for whoever watches, what its acts did to verifications: wrong codes, and ends. The act that made
 * a change tells of it once it is committed, whoever called the act. The sweep tells what has expired.
 */
import type { KeyRing } from "../otp/keys/key-ring.ts";
import type { Verification } from "../otp/verification/verification.ts";
import type { Decided } from "../otp/decisions/writes.ts";
import { createActivities, type Activities } from "../service/operators/activity.ts";
import type { Store } from "../store/store.ts";
import type { System } from "../system.ts";
import { activityTellers, type ActivityTellers } from "./activity.ts";

/** A verification before and after an act. */
interface Change {
  readonly before: Verification;
  readonly after: Verification;
}

type Decide<View, R> = (view: View) => Decided<R>;
type Noting = <View extends { readonly verification?: Verification | undefined }, R>(
  decide: Decide<View, R>,
) => Decide<View, R>;

export interface Ends {
  /** Told by the store of what its sweep has ended. */
  readonly onExpired: (verification: Verification) => void;
  /** The same with a store that tells of its acts; the keys read the numbers. */
  readonly watch: <W extends { readonly store: Store }>(watched: W, keys: KeyRing) => W;
}

/** Makes what is watched, and what of it the store tells. */
export function createWatching(system: System): { readonly activities: Activities; readonly ends: Ends } {
  let tellers: ActivityTellers | undefined;
  let switchActs: (isWatched: boolean) => void = () => {};
  const activities = createActivities(system, (isWatched) => switchActs(isWatched));
  const ends: Ends = {
    onExpired: (verification) => tellers?.ended(verification),
    watch(watched, keys) {
      tellers = activityTellers(activities, keys);
      const own = watched.store;
      const telling = tellingActs(own, tellers);
      const store = { ...own };
      // While nobody watches, a call's acts are the store's own.
      switchActs = (isWatched) => void Object.assign(store, isWatched ? telling : own);
      return { ...watched, store };
    },
  };
  return { activities, ends };
}

type TellingActs = Pick<Store, "updateVerification" | "settleMessage" | "claimMessages" | "claimFallbacks">;

/** The acts that change verifications: each decides as it would, and then tells what came of it. */
function tellingActs(store: Store, tellers: Pick<ActivityTellers, "guessed" | "ended">): TellingActs {
  async function noted<R>(act: (noting: Noting) => Promise<R>): Promise<R> {
    const changes = new Map<string, Change>();
    const result = await act((decide) => (view) => {
      const decided = decide(view);
      const { verification: before } = view;
      const after = decided.writes.verification;
      // A database may have a decision made again: the last one is committed.
      if (before !== undefined && after !== undefined) changes.set(before.id, { before, after });
      else if (before !== undefined) changes.delete(before.id);
      return decided;
    });
    for (const change of changes.values()) tell(change);
    return result;
  }

  function tell({ before, after }: Change): void {
    if (before.state !== "PENDING") return;
    if (after.attempts > before.attempts && after.state !== "VERIFIED") tellers.guessed(after);
    if (after.state !== "PENDING") tellers.ended(after);
  }

  return {
    updateVerification: (scope, decide) => noted((noting) => store.updateVerification(scope, noting(decide))),
    settleMessage: (name, phoneOf, decide) => noted((noting) => store.settleMessage(name, phoneOf, noting(decide))),
    claimMessages: (max, phoneOf, decideLate, billOf) =>
      noted((noting) => store.claimMessages(max, phoneOf, noting(decideLate), billOf)),
    claimFallbacks: (max, rules) =>
      noted((noting) => store.claimFallbacks(max, { ...rules, decide: noting(rules.decide) })),
  };
}
