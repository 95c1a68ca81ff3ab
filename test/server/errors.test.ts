/**
 * The error table for every reason there is, those that no caller can meet yet included.
 */
import { Code } from "@connectrpc/connect";
import { errorToJson } from "@connectrpc/connect/protocol-connect";
import { expect, test } from "vitest";
import { Reason } from "../../gen/otp/v1/otp_service_pb.ts";
import { reasons, type Reason as ReasonName } from "../../src/otp/reason.ts";
import { jsonOptions } from "../../src/server/rpc/decoding.ts";
import { httpStatus, restError, toConnectError } from "../../src/server/rpc/errors.ts";
import { contract, expectRefusal, type ContractReason } from "../support/data/contract.ts";
import { restOutcome } from "../support/clients/surfaces.ts";

const names = Object.keys(contract) as ContractReason[];

test("the contract's table, the product's and the proto's list the same reasons", () => {
  const inProto = Object.keys(Reason).filter((name) => Number.isNaN(Number(name)) && name !== "UNSPECIFIED");
  expect(inProto.toSorted()).toEqual(names.toSorted());
  expect(Object.keys(reasons).toSorted()).toEqual(names.toSorted());
});

test.each(names)("%s has its code, its status and a sentence of its own", (reason: ReasonName) => {
  const [code, http] = contract[reason];
  const error = toConnectError({ reason });
  expect([Code[error.code]?.toUpperCase(), httpStatus({ reason })]).toEqual([code.replaceAll("_", ""), http]);
  expect(error.rawMessage).toMatch(/^[A-Za-z].{10,}[.]$/);
  expect(names.filter((other) => toConnectError({ reason: other }).rawMessage === error.rawMessage)).toEqual([reason]);
});

test.each(names)("%s says all it knows at the top level and in its details", (reason: ReasonName) => {
  const { status, body } = restError({ reason, field: "phone", attemptsRemaining: 3, retryAfterMs: 1 });
  const pushback = toConnectError({ reason, retryAfterMs: 1 }).metadata.get("grpc-retry-pushback-ms");
  const headers = new Headers({ "retry-after": "1", ...(pushback !== null && { "grpc-retry-pushback-ms": pushback }) });
  const outcome = restOutcome(status, headers, JSON.parse(body) as Parameters<typeof restOutcome>[2]);
  expectRefusal(outcome, reason, { field: "phone", attemptsRemaining: 3, retryAfterSeconds: 1 });
});

test.each(names)("%s is on REST what Connect makes of it, and its headers are Connect's", (reason: ReasonName) => {
  const refusal = { reason, field: "phone", attemptsRemaining: 3, retryAfterMs: 1, metadata: { ends: "now" } };
  const error = toConnectError(refusal);
  const { headers, body } = restError(refusal);
  const said = JSON.parse(body) as Record<string, unknown>;
  expect(said).toMatchObject(errorToJson(error, jsonOptions));
  expect(headers).toEqual({ ...Object.fromEntries(error.metadata), "content-type": "application/json" });
});
