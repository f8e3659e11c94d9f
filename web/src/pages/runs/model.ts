// The rows of one view: a source for the whole table, or one for each open group.
import { signal } from '@preact/signals';
import { getJson, part, type ApiError, type Query } from '../../api/http';
import { asApiError } from '../../lib/useResource';
import type { SentRow } from '../../api/types';
import { rowOf, type Row } from './fields';
import type { Segment } from './segments';
import { placeOf } from './segments';
import { filtersOf, type View } from './view';
import { Windows, type Answer } from './windows';

const AHEAD = 50; // rows that are read ahead of the visible ones

export class Model {
  /** Another number whenever rows came. */
  readonly version = signal(0);
  readonly fault = signal<ApiError | undefined>(undefined);
  private sources = new Map<string, Windows<Row>>();

  constructor(
    readonly workspace: string,
    readonly view: View,
    readonly fields: readonly string[],
  ) {}

  total(key = ''): number | undefined {
    return this.sources.get(key)?.total;
  }

  row(segments: readonly Segment[], line: number): Row | undefined {
    const place = placeOf(segments, line);
    return place && !place.segment.group ? this.sources.get(place.segment.key)?.row(place.at) : undefined;
  }

  want(key: string, from: number, to: number): void {
    this.source(key).want(from - AHEAD, to + AHEAD);
  }

  refresh(): void {
    for (const source of this.sources.values()) source.refresh();
  }

  close(): void {
    for (const source of this.sources.values()) source.close();
  }

  /** Read rows by the way, such as those between two clicks. */
  async read(key: string, offset: number, limit: number, signal?: AbortSignal): Promise<Answer<Row>> {
    const { view, fields } = this;
    const query: Query = {
      ...filtersOf(view, key),
      sort: view.sort,
      descending: view.descending,
      column: fields,
      offset,
      limit,
    };
    const found = await getJson<Answer<SentRow>>(`/workspaces/${part(this.workspace)}/table`, query, signal);
    return { total: found.total, rows: found.rows.map((row) => rowOf(row, fields)) };
  }

  private source(key: string): Windows<Row> {
    let found = this.sources.get(key);
    if (!found) {
      const changed = (): void => {
        this.fault.value = undefined;
        this.version.value++;
      };
      found = new Windows(
        (offset, limit, signal) => this.read(key, offset, limit, signal),
        changed,
        (error) => (this.fault.value = asApiError(error)),
      );
      this.sources.set(key, found);
    }
    return found;
  }
}
