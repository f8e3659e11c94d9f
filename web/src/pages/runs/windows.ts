// Rows of one sorted list, read page by page where they are visible.
export interface Answer<T> {
  total: number;
  rows: T[];
}

type Read<T> = (offset: number, limit: number, signal: AbortSignal) => Promise<Answer<T>>;

export const PAGE = 100;
const MOST_PAGES = 80;
const PAUSE_MS = 70;

export class Windows<T> {
  total: number | undefined;
  private pages = new Map<number, T[]>();
  private stale = new Set<number>();
  private due = new Set<number>(); // to be read once more when the present reading is over
  private busy = new Map<number, AbortController>();
  private wanted: [number, number] = [0, 0];
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly read: Read<T>,
    private readonly changed: () => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  row(index: number): T | undefined {
    return this.pages.get(Math.floor(index / PAGE))?.[index % PAGE];
  }

  /** Say which rows are looked at, from `first` up to `end`; they are read at once, or soon after the last reading. */
  want(first: number, end: number): void {
    this.wanted = [Math.floor(Math.max(0, first) / PAGE), Math.floor(Math.max(0, end - 1) / PAGE)];
    if (this.timer !== undefined) return;
    if (this.start()) {
      this.timer = setTimeout(() => {
        this.timer = undefined;
        this.start();
      }, PAUSE_MS);
    }
  }

  /** Read the visible rows again; old rows stay until the new ones arrive. */
  refresh(): void {
    for (const page of [...this.pages.keys()]) {
      if (page < this.wanted[0] || page > this.wanted[1]) this.pages.delete(page);
      else this.stale.add(page);
    }
    for (const page of this.busy.keys()) this.due.add(page);
    this.start();
  }

  close(): void {
    clearTimeout(this.timer);
    for (const abort of this.busy.values()) abort.abort();
    this.busy.clear();
  }

  private start(): boolean {
    const [first, last] = this.wanted;
    for (const [page, abort] of this.busy) {
      if (page >= first && page <= last) continue;
      abort.abort();
      this.busy.delete(page);
    }
    let isNew = false;
    for (let page = first; page <= last; page++) {
      if (this.busy.has(page) || (this.pages.has(page) && !this.stale.has(page))) continue;
      if (this.total !== undefined && page * PAGE >= this.total && page > 0) continue;
      isNew = true;
      void this.fetch(page);
    }
    return isNew;
  }

  private async fetch(page: number): Promise<void> {
    const abort = new AbortController();
    this.busy.set(page, abort);
    try {
      const found = await this.read(page * PAGE, PAGE, abort.signal);
      if (this.busy.get(page) !== abort) return;
      this.busy.delete(page);
      this.keep(page, found);
    } catch (error) {
      if (this.busy.get(page) !== abort) return;
      this.busy.delete(page);
      this.failed(error);
    }
  }

  private keep(page: number, found: Answer<T>): void {
    this.stale.delete(page);
    this.pages.delete(page);
    this.pages.set(page, found.rows);
    for (const old of this.pages.keys()) {
      if (this.pages.size <= MOST_PAGES) break;
      if (old < this.wanted[0] || old > this.wanted[1]) this.pages.delete(old);
    }
    this.total = found.total;
    this.changed();
    if (this.due.delete(page)) {
      this.stale.add(page);
      this.start();
    }
  }
}
