/**
 * Long reads on SQLite: reads over many rows in a thread of their own (long-read-worker.ts), one at a time, so that no
 * call waits for them. The thread starts with the first and ends when there was none for a while: at rest it takes no
 * memory.
 */
import { Worker } from "node:worker_threads";
import { ownProgram } from "../../own-files.ts";
import { longReadQueueMax, longReadRowsMax, longReadMsMax } from "../engine.ts";
import { bindable, type Value, type Statement } from "../statement.ts";
import { LongReadEnded, StoreUnavailable } from "../store.ts";
import type { LongReadAnswer, LongReadQuestion, LongReadWorkerData } from "./long-read-worker.ts";

export interface LongReadsOptions {
  readonly path: string;
  readonly timeoutMs?: number;
  readonly idleMs?: number;
}

/** A long read that waits for its turn, or is under way. */
interface WaitingRead extends PromiseWithResolvers<unknown[]> {
  readonly question: LongReadQuestion;
}

/** How long a thread whose long read's time is over may take to notice, before it is given up. */
const graceMs = 500;
/** A machine with much to do may take seconds to start a thread. */
const startMsMax = 10_000;

const program = ownProgram("src/store/sqlite/long-read-worker");

export class LongReads {
  readonly #options: Required<LongReadsOptions>;
  readonly #flag = new Int32Array(new SharedArrayBuffer(4));
  readonly #waiting: WaitingRead[] = [];
  #underWay: WaitingRead | undefined;
  #worker: Worker | undefined;
  /** Whether the thread reads already: a long read's time begins no earlier. */
  #isReady = false;
  /** The end of a thread that was given up: until then there is no other, or they would be many. */
  #stuck: Promise<void> | undefined;
  #timer: NodeJS.Timeout | undefined;
  #asked = 0;
  #isClosed = false;

  constructor({ path, timeoutMs = longReadMsMax, idleMs = 10_000 }: LongReadsOptions) {
    this.#options = { path, timeoutMs, idleMs };
  }

  /** Whether there is a thread just now. */
  get isAwake(): boolean {
    return this.#worker !== undefined;
  }

  async read<Row>(statement: Statement, values: readonly Value[]): Promise<Row[]> {
    if (this.#isClosed) throw new StoreUnavailable("the store is closed");
    if (this.#stuck !== undefined) throw new LongReadEnded("an earlier report has not ended yet");
    if (this.#waiting.length >= longReadQueueMax) throw new LongReadEnded("too many reports wait");
    const { text, order } = bindable(statement);
    const ordered = order.map((place) => values[place] ?? null);
    const question = { id: ++this.#asked, text, values: ordered, rowsMax: longReadRowsMax };
    const asked: WaitingRead = { ...Promise.withResolvers<unknown[]>(), question };
    this.#waiting.push(asked);
    this.#next();
    return (await asked.promise) as Row[];
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    Atomics.store(this.#flag, 0, 1);
    this.#giveUp(new StoreUnavailable("the store is closed"));
    await this.#stuck;
  }

  #next(): void {
    if (this.#underWay !== undefined) return;
    clearTimeout(this.#timer);
    const asked = this.#waiting.shift();
    if (asked === undefined) {
      this.#worker?.unref();
      this.#timer = setTimeout(() => void this.#end(), this.#options.idleMs).unref();
      return;
    }
    this.#underWay = asked;
    Atomics.store(this.#flag, 0, 0);
    this.#worker ??= this.#start();
    this.#worker.ref();
    // oxlint-disable-next-line require-post-message-target-origin -- to a thread, which has no origin
    this.#worker.postMessage(asked.question);
    if (this.#isReady) this.#begin();
    else this.#timer = setTimeout(() => this.#giveUp(new StoreUnavailable("no report can begin")), startMsMax);
  }

  #begin(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#timeIsOver(), this.#options.timeoutMs);
  }

  #start(): Worker {
    const workerData: LongReadWorkerData = {
      path: this.#options.path,
      isOver: this.#flag.buffer,
    };
    // What the process was started with is not for its threads, and a long read may not take the calls' memory.
    const worker = new Worker(program, {
      workerData,
      execArgv: [],
      env: {},
      resourceLimits: { maxOldGenerationSizeMb: 128 },
    });
    worker.on("message", (answer: LongReadAnswer) => {
      if (this.#worker !== worker) return;
      if (this.#underWay?.question.id === answer.id) this.#answered(answer);
      if (answer.id !== 0) return;
      this.#isReady = true;
      if (this.#underWay !== undefined) this.#begin();
    });
    worker.on("error", (error: unknown) => {
      if (this.#worker === worker) this.#giveUp(new StoreUnavailable("the report failed", { cause: error }));
    });
    return worker;
  }

  #answered(answer: LongReadAnswer): void {
    const asked = this.#underWay;
    this.#underWay = undefined;
    if ("rows" in answer) asked?.resolve(answer.rows);
    else if (Atomics.load(this.#flag, 0) !== 0) asked?.reject(tooLong(this.#options.timeoutMs));
    else asked?.reject(new StoreUnavailable(`the report failed: ${answer.message}`));
    this.#next();
  }

  #timeIsOver(): void {
    Atomics.store(this.#flag, 0, 1);
    this.#timer = setTimeout(() => this.#giveUp(tooLong(this.#options.timeoutMs)), graceMs);
  }

  /** Ends the thread whatever it does, and all that waits for it. */
  #giveUp(why: Error): void {
    this.#underWay?.reject(why);
    this.#underWay = undefined;
    for (const asked of this.#waiting.splice(0)) asked.reject(why);
    const ended = this.#end();
    this.#stuck = ended;
    void ended.finally(() => {
      if (this.#stuck === ended) this.#stuck = undefined;
    });
  }

  async #end(): Promise<void> {
    clearTimeout(this.#timer);
    const worker = this.#worker;
    this.#worker = undefined;
    this.#isReady = false;
    await worker?.terminate();
  }
}

function tooLong(timeoutMs: number): LongReadEnded {
  return new LongReadEnded(`the report took longer than ${timeoutMs / 1_000} s and was ended`);
}
