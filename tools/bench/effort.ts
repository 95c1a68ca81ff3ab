/**
 * How much is measured: all that the standing comparison takes, or less of it.
 */
export interface Effort {
  /** Connections of the closed loop, and lanes of the open one. */
  readonly connections: number;
  readonly lanes: number;
  readonly rounds: number;
  readonly roundMs: number;
  /** Until V8 has compiled what a cycle runs: ours still falls by a quarter within the first 20,000. */
  readonly warmUpMs: number;
  /** Pending verifications in the databases that are compared. */
  readonly sizes: readonly number[];
  /** Real sends in the database that the others are multiplied from. */
  readonly realSends: number;
  /** Cycles a second of the open loop, and how long a round of each takes. */
  readonly rates: readonly { readonly perSecond: number; readonly roundMs: number }[];
  /** Callers at once of a slow provider. */
  readonly crowds: readonly number[];
  /** Requests that hang at a time, of the 1,024 that the service takes. */
  readonly hanging: number;
  readonly processes: number;
  readonly starts: number;
  /** How long a server is let alone and then watched at rest, and how long it is under load in between. */
  readonly settleMs: number;
  readonly restMs: number;
  readonly loadMs: number;
}

const full: Effort = {
  connections: 32,
  lanes: 64,
  rounds: 5,
  roundMs: 2_000,
  warmUpMs: 30_000,
  sizes: [10_000, 100_000, 1_000_000],
  realSends: 10_000,
  rates: [
    { perSecond: 50, roundMs: 10_000 },
    { perSecond: 300, roundMs: 5_000 },
    { perSecond: 1_000, roundMs: 5_000 },
  ],
  crowds: [64, 256, 1_000],
  hanging: 1_000,
  processes: 3,
  starts: 5,
  settleMs: 30_000,
  restMs: 60_000,
  loadMs: 30_000,
};

const quick: Effort = {
  ...full,
  rounds: 3,
  roundMs: 1_000,
  warmUpMs: 3_000,
  sizes: [10_000, 100_000],
  rates: [
    { perSecond: 50, roundMs: 4_000 },
    { perSecond: 300, roundMs: 2_000 },
    { perSecond: 1_000, roundMs: 2_000 },
  ],
  processes: 1,
  starts: 3,
  settleMs: 15_000,
  restMs: 10_000,
  loadMs: 10_000,
};

const smoke: Effort = {
  connections: 2,
  lanes: 4,
  rounds: 1,
  roundMs: 50,
  warmUpMs: 50,
  sizes: [100, 200],
  realSends: 100,
  rates: [{ perSecond: 50, roundMs: 100 }],
  crowds: [4],
  hanging: 10,
  processes: 1,
  starts: 1,
  settleMs: 50,
  restMs: 100,
  loadMs: 100,
};

export const efforts = { full, quick, smoke };
