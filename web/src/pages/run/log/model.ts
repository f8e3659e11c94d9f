// The lines of one log as far as they were read: asked for by number, so that growth, a cut or a restart of the server
// neither loses a line nor shows one twice.
import { signal } from '@preact/signals';
import type { ApiError } from '../../../api/http';
import { asApiError } from '../../../lib/useResource';

/** The answer of `GET /runs/{id}/log/lines`. */
export interface LinesAnswer {
  file: string;
  id: string;
  size: number;
  complete: boolean;
  first: number;
  total: number | null;
  ended: boolean;
  lines: string[];
  cut: number[];
}

export interface LinesQuery {
  first: number;
  count: number;
  whole?: boolean;
}

const PAGE = 500;
const TAIL = 200;
const MOST_KEPT = 20_000;
const NEAR = 5_000;
const RETRIES_MS = [500, 1000, 2000, 5000];

export class LogModel {
  /** Changes with everything below. */
  readonly version = signal(0);
  /** null until all lines are counted; `tail` is shown meanwhile. */
  total: number | null = null;
  tail: readonly string[] = [];
  size = 0;
  complete = false;
  error: ApiError | undefined;

  private readonly lines = new Map<number, string>();
  private readonly cut = new Set<number>();
  private id: string | undefined;
  private wanted: { first: number; last: number } | undefined;
  private hasTail = false;
  private isDue = false;
  private isBusy = false;
  private isStopped = false;
  private faults = 0;
  private retry: ReturnType<typeof setTimeout> | undefined;

  constructor(private readonly ask: (query: LinesQuery) => Promise<LinesAnswer>) {}

  line(number: number): string | undefined {
    return this.lines.get(number);
  }

  isCut(number: number): boolean {
    return this.cut.has(number);
  }

  /** Have these lines read, if they are not there. */
  want(first: number, last: number): void {
    this.wanted = { first: Math.max(1, first), last };
    void this.pump();
  }

  /** The log may have grown. */
  refresh(): void {
    this.isDue = true;
    clearTimeout(this.retry);
    void this.pump();
  }

  /** Read a line that was cut, as far as the server gives it. */
  async readWhole(number: number): Promise<void> {
    const answer = await this.ask({ first: number, count: 1, whole: true });
    if (answer.id !== this.id || answer.first !== number || answer.lines[0] === undefined) return;
    this.lines.set(number, answer.lines[0]);
    this.cut.delete(number);
    this.version.value++;
  }

  /** Read some lines for a copy, whether they are kept or not. */
  async read(first: number, last: number): Promise<string[]> {
    const found: string[] = [];
    while (first + found.length <= last) {
      const answer = await this.ask({
        first: first + found.length,
        count: Math.min(2000, last - first - found.length + 1),
      });
      if (!answer.lines.length) break;
      found.push(...answer.lines);
    }
    return found;
  }

  stop(): void {
    this.isStopped = true;
    clearTimeout(this.retry);
  }

  /** One question at a time: an older answer never overwrites a newer one. */
  private async pump(): Promise<void> {
    if (this.isBusy || this.isStopped) return;
    this.isBusy = true;
    try {
      for (let query = this.next(); query && !this.isStopped; query = this.next())
        this.take(query, await this.ask(query));
    } catch (error) {
      if (this.isStopped) return;
      this.error = asApiError(error);
      this.isDue = true;
      if (this.error.status === 0 || this.error.status >= 500) {
        this.retry = setTimeout(() => void this.pump(), RETRIES_MS[Math.min(this.faults++, RETRIES_MS.length - 1)]);
      }
      this.version.value++;
    } finally {
      this.isBusy = false;
    }
  }

  private next(): LinesQuery | undefined {
    if (!this.hasTail) return { first: -TAIL, count: TAIL };
    if (this.total === null) return { first: 1, count: 0 };
    if (this.isDue) {
      this.isDue = false;
      return { first: Math.max(1, this.total), count: PAGE }; // the last line may have gone on
    }
    const missing = this.missing();
    return missing === undefined ? undefined : { first: missing, count: PAGE };
  }

  private missing(): number | undefined {
    if (!this.wanted || !this.total) return undefined;
    const { first, last } = this.wanted;
    for (let number = first; number <= Math.min(last, this.total); number++) if (!this.lines.has(number)) return number;
    return undefined;
  }

  private take(query: LinesQuery, answer: LinesAnswer): void {
    if (this.id !== undefined && this.id !== answer.id) this.forget(); // a new attempt's log took the name over
    this.id = answer.id;
    this.error = undefined;
    this.faults = 0;
    this.hasTail = this.hasTail || query.first < 0;
    this.size = answer.size;
    this.complete = answer.complete;
    if (answer.total === null) {
      if (query.first < 0) this.tail = answer.lines;
      else if (this.total !== null) this.isDue = true; // it grew faster than it is counted
    } else this.total = answer.total;
    if (answer.first > 0) this.keep(answer);
    if (!answer.lines.length && query.count > 0 && query.first > 0) this.wanted = undefined; // never ask for ever
    this.version.value++;
  }

  private keep(answer: LinesAnswer): void {
    if (this.lines.size > MOST_KEPT) this.prune();
    answer.lines.forEach((text, index) => {
      this.lines.set(answer.first + index, text);
      this.cut.delete(answer.first + index);
    });
    for (const position of answer.cut) this.cut.add(answer.first + position);
  }

  private prune(): void {
    const { first, last } = this.wanted ?? { first: 0, last: 0 };
    for (const number of this.lines.keys())
      if (number < first - NEAR || number > last + NEAR) this.lines.delete(number);
  }

  private forget(): void {
    this.lines.clear();
    this.cut.clear();
    this.total = null;
    this.tail = [];
    this.hasTail = false;
  }
}
