/**
 * The state of a verification as a word with a colour.
 */
import { State } from "../../../gen/otp/v1/otp_service_pb.ts";
import * as format from "../format.ts";
import { badge } from "../parts.ts";

const tones = new Map<State, "good" | "plain" | "warn">([
  [State.VERIFIED, "good"],
  [State.PENDING, "plain"],
  [State.CANCELED, "warn"],
]);

export function stateBadge(state: State): HTMLElement {
  return badge(format.enumWord(State, state), tones.get(state) ?? "bad");
}
