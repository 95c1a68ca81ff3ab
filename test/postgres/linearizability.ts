/**
 * Whether a recorded history could have been told by one thing that does one operation at a time: the search of Wing and
 * Gong, with Lowe's memory of configurations that led nowhere. Each operation must take effect at one moment between its
 * start and its end; one whose outcome is unknown may take effect at any moment after its start, or never.
 */

export interface Operation<Input, Output> {
  readonly startMs: number;
  /** Infinity where nobody heard of its end. */
  readonly endMs: number;
  readonly input: Input;
  /** Undefined where it is unknown. */
  readonly output: Output | undefined;
}

/** The thing as it is when nobody disturbs it. */
export interface Model<State, Input, Output> {
  readonly initial: State;
  step(state: State, input: Input): { readonly state: State; readonly output: Output };
  /** Tells states apart, and outputs. */
  nameOf(thing: State | Output): string;
  /** True for an output that comes with no change, in whatever state it is given. */
  isRead(output: Output): boolean;
}

/** Configurations looked at before the search is given up. */
const configurationsMax = 1_000_000;

/** Tells whether a history is linearizable. Throws when that cannot be told in a reasonable time. */
export function isLinearizable<State, Input, Output>(
  model: Model<State, Input, Output>,
  history: readonly Operation<Input, Output>[],
): boolean {
  const operations = history.toSorted((a, b) => a.startMs - b.startMs);
  const seen = new Set<string>();

  /** Those that may come next: begun before the first end of those that are left. */
  function candidates(done: Uint8Array): number[] {
    let endMs = Number.POSITIVE_INFINITY;
    for (const [i, operation] of operations.entries()) if (done[i] === 0) endMs = Math.min(endMs, operation.endMs);
    const found: number[] = [];
    for (const [i, operation] of operations.entries()) {
      if (operation.startMs > endMs) break;
      if (done[i] === 0) found.push(i);
    }
    return found;
  }

  const outputIs = (at: number, output: Output) => {
    const known = operations[at]?.output;
    return known === undefined || model.nameOf(known) === model.nameOf(output);
  };

  function search(done: Uint8Array, from: State): boolean {
    let next: number[];
    // What changes nothing and fits here can always go first: no other order is better for it.
    for (;;) {
      next = candidates(done);
      const reads = next.filter((i) => {
        const { input, output } = operations[i] as Operation<Input, Output>;
        return output !== undefined && model.isRead(output) && outputIs(i, model.step(from, input).output);
      });
      if (reads.length === 0) break;
      for (const i of reads) done[i] = 1;
    }
    if (operations.every(({ output }, i) => done[i] === 1 || output === undefined)) return true;
    const name = `${model.nameOf(from)} ${Buffer.from(done).toString("latin1")}`;
    if (seen.has(name)) return false;
    seen.add(name);
    if (seen.size > configurationsMax) throw new Error(`no answer after ${configurationsMax} configurations`);
    return next.some((i) => {
      const { input, output: answer } = operations[i] as Operation<Input, Output>;
      // Of those that nobody heard of, and that ask for the same, one stands for all.
      const isTwin = (j: number) => operations[j]?.output === undefined && operations[j]?.input === input;
      if (answer === undefined && next.find(isTwin) !== i) return false;
      const { state, output } = model.step(from, input);
      if (!outputIs(i, output)) return false;
      // It need not have happened, and here it would be as if it had not.
      if (answer === undefined && model.nameOf(state) === model.nameOf(from)) return false;
      const after = done.slice();
      after[i] = 1;
      return search(after, state);
    });
  }

  return search(new Uint8Array(operations.length), model.initial);
}

// ---- the attempts of a verification ---------------------------------------------------------------------------------

export interface Attempts {
  readonly attempts: number;
  readonly state: "PENDING" | "VERIFIED" | "LOCKED";
}

/** A guess, or a look at the row once all guesses are over. */
export type AttemptInput = "right" | "wrong" | "look";

/** A reason with what remains, such as "CODE_MISMATCH 4"; "OK"; or what the look found, such as "LOCKED 5". */
export type AttemptOutput = string;

/** A verification as its callers may know it: counts each guess while it is pending, and succeeds once. */
export function attemptsModel(attemptsMax: number): Model<Attempts, AttemptInput, AttemptOutput> {
  return {
    initial: { attempts: 0, state: "PENDING" },
    step(before, input) {
      if (input === "look") return { state: before, output: `${before.state} ${before.attempts}` };
      if (before.state === "LOCKED") return { state: before, output: "OTP_LOCKED" };
      if (before.state === "VERIFIED") return { state: before, output: "OTP_ALREADY_VERIFIED" };
      const attempts = before.attempts + 1;
      if (input === "right") return { state: { attempts, state: "VERIFIED" }, output: "OK" };
      const remaining = attemptsMax - attempts;
      return {
        state: { attempts, state: remaining > 0 ? "PENDING" : "LOCKED" },
        output: `CODE_MISMATCH ${remaining}`,
      };
    },
    nameOf: (thing) => (typeof thing === "string" ? thing : `${thing.state} ${thing.attempts}`),
    isRead: (output) => output !== "OK" && !output.startsWith("CODE_MISMATCH"),
  };
}
