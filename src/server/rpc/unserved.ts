/**
 * The answers to requests that nobody serves, wherever they lead: node's own answers to them would be empty.
 */
import { invalid, refuse } from "../../otp/reason.ts";
import { discard } from "../http/body.ts";
import type { RequestHandler, Unserved } from "../listener/exchange.ts";
import type { More, TurnAway } from "./turn-away.ts";
import { methodNotAllowed } from "./routes.ts";

const expectation = invalid(undefined, "Of what Expect may ask, 100-continue alone is served.");
const notOneHost = invalid(undefined, "A request by HTTP/1.1 needs one Host header, and no more.");
const tooManyHeaders = invalid(undefined, "The request has more than 100 headers.");
const framing = invalid(undefined, "Of Transfer-Encoding chunked alone is served, and that from HTTP/1.1 on.");
const { allow } = methodNotAllowed(["GET", "HEAD", "POST"]);
export const tunnel = { ...refuse("METHOD_NOT_ALLOWED", { message: "No tunnel is opened here." }), headers: { allow } };

const answers: Readonly<Record<Unserved, More & Pick<typeof notOneHost, "refusal">>> = {
  expectation: { ...expectation, status: 417 },
  tunnel,
  "not one host": notOneHost,
  framing,
  "too many headers": { ...tooManyHeaders, status: 431 },
};

export function createRefuseUnserved(turnAway: TurnAway): RequestHandler["refuseUnserved"] {
  return (request, response, what) => {
    const { refusal, ...more } = answers[what];
    discard(request);
    turnAway(request, response, refusal, more);
  };
}
