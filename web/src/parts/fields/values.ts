// Fields that runs are plotted by: for each run the value of a parameter, a metric or a fact of the run.
export type Value = number | string | null;

export interface Field {
  id: string;
  label: string;
  group: 'Parameters' | 'Metrics' | 'Run';
  /** One per row, in the rows' order. */
  values: readonly Value[];
}

/** A run as plots name it. */
export interface Row {
  id: string;
  label: string;
}

const NUMBER = /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i;

/** A number where it is one or its text is one; what is not finite is no value; lists and objects as their JSON. */
export function asValue(found: unknown): Value {
  if (found === null || found === undefined || found === '') return null;
  if (typeof found === 'number') return Number.isFinite(found) ? found : null;
  if (typeof found === 'string') return NUMBER.test(found.trim()) ? asValue(Number(found)) : found;
  return typeof found === 'object' ? JSON.stringify(found) : String(found);
}

/** A metric's value: numbers only, so `NaN` and words are none. */
export function asNumber(found: unknown): number | null {
  const value = asValue(found);
  return typeof value === 'number' ? value : null;
}

/** Whether the runs have two different values, or some have none. */
export const varies = (field: Field): boolean => new Set(field.values).size > 1;

export const isNumeric = (values: readonly Value[]): boolean =>
  values.some((value) => value !== null) && values.every((value) => value === null || typeof value === 'number');

/** Numbers before words, words by their numbers (`run 2` before `run 10`), nothing last. */
export function compareValues(a: Value, b: Value): number {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a === typeof b) return collator.compare(String(a), String(b));
  return typeof a === 'number' ? -1 : 1;
}

const collator = new Intl.Collator('en', { numeric: true });
