// A search through one log, answer by answer: hits come while it goes on, and it goes on when the log grows.
import { signal } from '@preact/signals';
import type { ApiError } from '../../../api/http';
import { asApiError } from '../../../lib/useResource';
import type { Wanted } from './matches';

/** The answer of `GET /runs/{id}/log/search`. */
export interface SearchAnswer {
  size: number;
  lines: number[];
  searched_to: number;
  offset: number | null;
  done: boolean;
}

export type AskSearch = (
  query: Wanted & { after: number; offset: number | null },
  signal: AbortSignal,
) => Promise<SearchAnswer>;

export const MOST_HITS = 100_000;

export class Search {
  /** Changes with everything below. */
  readonly version = signal(0);
  readonly hits: number[] = [];
  isDone = false;
  isFull = false;
  part = 0; // of the log, 0 to 1
  error: ApiError | undefined;

  private after = 0;
  private offset: number | null = 0;
  private isBusy = false;
  private isDue = false;
  private waiting: (() => void)[] = [];
  private readonly abort = new AbortController();

  constructor(
    readonly wanted: Wanted,
    private readonly ask: AskSearch,
  ) {
    void this.run();
  }

  /** The log may have grown. */
  refresh(): void {
    this.isDue = true;
    void this.run();
  }

  stop(): void {
    this.abort.abort();
    this.changed();
  }

  /** The first hit at or after a line (`step` 1), or the last at or before it (−1), as an index; round at the ends. */
  find(line: number, step: 1 | -1): number | undefined {
    if (!this.hits.length) return undefined;
    let low = 0;
    for (let high = this.hits.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (this.hits[middle]! < line) low = middle + 1;
      else high = middle;
    }
    if (step > 0) return low < this.hits.length ? low : this.isDone || this.isFull ? 0 : undefined;
    if (this.hits[low] === line) return low;
    return low > 0 ? low - 1 : this.isDone || this.isFull ? this.hits.length - 1 : undefined;
  }

  /** The line that `find` finds, as soon as the search came there; undefined when there is none. */
  async reach(line: number, step: 1 | -1): Promise<number | undefined> {
    for (;;) {
      const index = this.find(line, step);
      if (index !== undefined) return this.hits[index];
      if (this.isDone || this.isFull || this.error || this.abort.signal.aborted) return undefined;
      await new Promise<void>((resolve) => this.waiting.push(resolve));
    }
  }

  private async run(): Promise<void> {
    if (this.isBusy || this.isFull || this.abort.signal.aborted) return;
    this.isBusy = true;
    try {
      do {
        this.isDue = false;
        this.isDone = false;
        while (!this.isDone && !this.isFull)
          this.take(await this.ask({ ...this.wanted, after: this.after, offset: this.offset }, this.abort.signal));
      } while (this.isDue && !this.isFull);
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.error = asApiError(error);
      this.changed();
    } finally {
      this.isBusy = false;
    }
  }

  private take(answer: SearchAnswer): void {
    for (const line of answer.lines) if (line > (this.hits[this.hits.length - 1] ?? 0)) this.hits.push(line);
    this.after = answer.searched_to;
    this.offset = answer.offset;
    this.isDone = answer.done;
    this.isFull = this.hits.length >= MOST_HITS;
    this.part = answer.done || !answer.size ? 1 : (answer.offset ?? 0) / answer.size;
    this.error = undefined;
    this.changed();
  }

  private changed(): void {
    this.version.value++;
    for (const wake of this.waiting.splice(0)) wake();
  }
}
