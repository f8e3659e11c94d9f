// Columns of the table: labels, widths, and texts of cells.
import { number } from '../../lib/format';
import type { CellValue, SentRow } from '../../api/types';

/** A run of the table, its values by field. */
export type Row = Omit<SentRow, 'values'> & { values: Readonly<Record<string, CellValue>> };

export interface Column {
  field: string;
  label: string;
  /** The minimum width. */
  px: number;
  isNumber: boolean;
  /** Whether its values are asked for: of a metric, parameter, tag or property. */
  isKeyed: boolean;
}

export const BUILT_IN: Readonly<Record<string, readonly [label: string, width: number, isNumber?: boolean]>> = {
  status: ['Status', 128],
  experiment: ['Experiment', 150],
  created: ['Created', 104],
  duration: ['Duration', 104, true],
  number: ['Number', 84, true],
  user: ['User', 110],
  target: ['Target', 110],
  type: ['Type', 140],
};
export const USUAL: readonly string[] = ['status', 'experiment', 'created', 'duration'];
export const KEYED = ['metrics', 'params', 'tags', 'properties'] as const;

export const keyOf = (field: string): string => field.slice(field.indexOf('.') + 1);
export const kindOf = (field: string): string => field.slice(0, Math.max(0, field.indexOf('.')));

/** Whether the server knows a column of that name. */
export const isColumn = (field: string): boolean =>
  field in BUILT_IN || ((KEYED as readonly string[]).includes(kindOf(field)) && keyOf(field) !== '');

export function columnsOf(fields: readonly string[]): Column[] {
  return [...new Set(fields)].filter(isColumn).map((field) => {
    const known = BUILT_IN[field];
    if (known) return { field, label: known[0], px: known[1], isNumber: known[2] ?? false, isKeyed: false };
    const label = keyOf(field);
    return {
      field,
      label,
      px: Math.round(Math.max(108, Math.min(220, 48 + 7.4 * label.length))),
      isNumber: kindOf(field) === 'metrics',
      isKeyed: true,
    };
  });
}

const NAME = 'min(270px, 46vw)';

/** The tracks of a line, and how wide it is at least. */
export const tracksOf = (columns: readonly Column[]): Record<string, string> => ({
  '--rt-tracks': `36px minmax(${NAME}, 2.4fr) ${columns.map((one) => (one.isKeyed ? `minmax(${one.px}px, 1fr)` : `${one.px}px`)).join(' ')}`,
  '--rt-width': `calc(${36 + columns.reduce((sum, one) => sum + one.px, 0)}px + ${NAME})`,
});

export const asked = (columns: readonly Column[]): string[] =>
  columns.filter((one) => one.isKeyed).map((one) => one.field);

export const rowOf = (sent: SentRow, fields: readonly string[]): Row => ({
  ...sent,
  values: Object.fromEntries(fields.map((field, at) => [field, sent.values[at] ?? null])),
});

/** The name of a run. */
export const nameOf = (row: Pick<Row, 'display_name' | 'id'>): string => row.display_name || row.id;

const TAIL = 9;

/** An id in two parts, so that a narrow column cuts off its middle: ids differ at their end. */
export const halves = (id: string): [string, string] =>
  id.length > 2 * TAIL ? [id.slice(0, -TAIL), id.slice(-TAIL)] : [id, ''];

export function cellText(value: CellValue | undefined): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'string' ? (value === '' ? '∅' : value) : number(value);
}

const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
export const looksNumeric = (value: unknown): boolean =>
  typeof value === 'number' || (typeof value === 'string' && NUMBER.test(value));

/** The columns to show by default: those that most runs have. */
export function suggested(found: readonly { field: string; key: string; runs: number }[], ofRuns: number): string[] {
  const used = (kind: string, most: number): string[] =>
    found
      .filter((one) => one.field === kind && one.runs * 4 >= ofRuns)
      .slice(0, most)
      .map((one) => `${one.field}.${one.key}`);
  return [...used('metrics', 3), ...used('params', 2)];
}
