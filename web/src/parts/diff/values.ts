// Where named values of several things differ: packages, variables, parameters. Pure.

export type Values = Readonly<Record<string, string>>;

/** One name with its value in each thing; undefined where a thing has none. */
export interface Difference {
  name: string;
  values: readonly (string | undefined)[];
  isSame: boolean;
}

/** Return all names in order, each with its values. */
export function valuesSideBySide(things: readonly Values[]): Difference[] {
  const names = [...new Set(things.flatMap((one) => Object.keys(one)))].sort((one, other) => one.localeCompare(other));
  return names.map((name) => {
    const values = things.map((one) => (Object.hasOwn(one, name) ? one[name] : undefined));
    return { name, values, isSame: values.every((value) => value === values[0]) };
  });
}

/** Return only what is not the same everywhere. */
export const differing = (things: readonly Values[]): Difference[] =>
  valuesSideBySide(things).filter((one) => !one.isSame);

export type Change = 'same' | 'added' | 'removed' | 'changed';

/** What became of a value between two things. */
export function changeOf(before: string | undefined, after: string | undefined): Change {
  if (before === after) return 'same';
  return before === undefined ? 'added' : after === undefined ? 'removed' : 'changed';
}

/** Nested plain values as `a.b` → text, so that they can be compared by name; lists whole. */
export function flat(value: unknown, below = ''): Record<string, string> {
  if (value === null || value === undefined || value === '') return {};
  if (typeof value !== 'object') return { [below || 'value']: String(value) };
  if (Array.isArray(value)) return value.length ? { [below || 'value']: value.map(text).join(' ') } : {};
  const found: Record<string, string> = {};
  for (const [key, one] of Object.entries(value)) Object.assign(found, flat(one, below ? `${below}.${key}` : key));
  return found;
}

const text = (value: unknown): string => (typeof value === 'object' ? JSON.stringify(value) : String(value));
