// Values that are no chart: columns of a table, words, and the JSON forms of AzureML's `log_*`. Pure but for one read.
import { numbersOf, type Frame } from '../../../api/frames';

export interface Column {
  name: string;
  cells: readonly unknown[];
}

/** Python's JSON writes NaN and Infinity bare, outside of texts. */
export function parsePython(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return JSON.parse(
      text.replace(/"(?:[^"\\]|\\.)*"|-?Infinity|NaN/g, (found) => (found.startsWith('"') ? found : `"${found}"`)),
    );
  }
}

export function columnOf(frame: Frame): Column {
  const { head, body } = frame;
  const name = String(head.column ?? '');
  if (head.type === 'json') return { name, cells: parsePython(new TextDecoder().decode(body) || '[]') as unknown[] };
  const numbers = Array.from(numbersOf(frame));
  return { name, cells: head.type === 'b1' ? numbers.map((one) => one === 1) : numbers };
}

export type Drawable =
  | { kind: 'matrix'; labels: readonly string[]; rows: readonly (readonly number[])[] }
  | {
      kind: 'accuracy';
      labels: readonly string[];
      thresholds: readonly number[];
      tables: readonly (readonly (readonly number[])[])[];
    }
  | { kind: 'columns'; columns: readonly Column[]; facts: readonly (readonly [string, unknown])[] }
  | { kind: 'json'; text: string };

/** A confusion matrix, an accuracy table, or lists of one length; else the JSON itself. Hostile JSON is JSON. */
export function drawableOf(text: string): Drawable {
  let found: unknown;
  try {
    found = parsePython(text);
  } catch {
    return { kind: 'json', text };
  }
  const data = isObject(found) && isObject(found.data) ? found.data : found;
  if (!isObject(data)) return pretty(found);
  const labels = Array.isArray(data.class_labels) ? data.class_labels.map(String) : [];
  const matrix = data.matrix;
  if (isMatrix(matrix))
    return { kind: 'matrix', labels: matrix.map((_, at) => labels[at] ?? String(at)), rows: matrix };
  const tables = data.probability_tables;
  const thresholds = data.probability_thresholds;
  if (Array.isArray(tables) && tables.every(isMatrix) && isNumbers(thresholds)) {
    return {
      kind: 'accuracy',
      labels: tables.map((_, at) => labels[at] ?? String(at)),
      thresholds,
      tables: tables as number[][][],
    };
  }
  return columnsOf(data) ?? pretty(found);
}

function columnsOf(data: Record<string, unknown>): Drawable | null {
  const entries = Object.entries(data);
  const columns = entries.flatMap(([name, cells]) =>
    Array.isArray(cells) && cells.every((cell) => !isObject(cell) && !Array.isArray(cell)) ? [{ name, cells }] : [],
  );
  const facts = entries.filter(([, value]) => value === null || typeof value !== 'object');
  return columns.length && columns.length + facts.length === entries.length
    ? { kind: 'columns', columns, facts }
    : null;
}

const pretty = (found: unknown): Drawable => ({ kind: 'json', text: JSON.stringify(found, null, 2) });
const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isNumbers = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((one) => typeof one === 'number');
const isMatrix = (value: unknown): value is number[][] =>
  Array.isArray(value) && value.length > 0 && value.every(isNumbers);

const SIGNS: readonly (readonly [readonly number[], string])[] = [
  [[0x89, 0x50, 0x4e, 0x47], 'image/png'],
  [[0xff, 0xd8, 0xff], 'image/jpeg'],
  [[0x47, 0x49, 0x46, 0x38], 'image/gif'],
  [[0x52, 0x49, 0x46, 0x46], 'image/webp'],
  [[0x42, 0x4d], 'image/bmp'],
];

/** The type of an image by its first bytes; its name proves nothing. */
export function imageType(bytes: Uint8Array): string | null {
  for (const [sign, type] of SIGNS) if (sign.every((one, at) => bytes[at] === one)) return type;
  const start = new TextDecoder().decode(bytes.subarray(0, 500)).trimStart();
  return /^(<\?xml[^>]*>\s*)?(<!--[\s\S]*?-->\s*)?(<!DOCTYPE svg[^>]*>\s*)?<svg[\s>]/i.test(start)
    ? 'image/svg+xml'
    : null;
}
