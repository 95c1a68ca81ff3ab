/**
 * What strangers have the real process hold in memory: a bounded number of bytes, whatever they do, while an honest caller is
 * served all along.
 */
import {
  bytewiseChunks,
  bytewisePieces,
  errors,
  halfBlocks,
  longHeaders,
  halfHeads,
  pipelined,
  questions,
  shortHeaders,
  unfinished,
  unfinishedChecks,
  unknownFields,
  windowless,
  windowlessLong,
} from "../support/clients/attacks.ts";
import { measure } from "../support/service/held.ts";
import { sampled } from "../support/extent.ts";

measure([
  bytewiseChunks(450),
  bytewisePieces(4),
  errors(16_000),
  shortHeaders(560),
  unknownFields(7),
  questions(160),
  ...sampled(
    [
      unfinishedChecks(1_500),
      pipelined(20),
      pipelined(60),
      pipelined(200, "/openapi.json"),
      pipelined(200, "/elements/otp-form.js"),
      windowless(50, "/metrics"),
      windowless(60, "/livez"),
      // A path whose answers may last, asked for in a way that is refused.
      windowless(200, "/grpc.health.v1.Health/Watch"),
      windowlessLong(40),
      windowlessLong(100),
      longHeaders(60),
      halfHeads(1_000),
      halfBlocks(500),
      halfBlocks(1_500),
      unfinished(11),
    ],
    3,
  ),
]);
