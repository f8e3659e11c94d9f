// Suggestions for a filter during typing: fields, values of operators, words.
export interface Choice {
  /** The text to insert. */
  text: string;
  /** Beside it, in small. */
  note: string;
}

export interface Suggestions {
  /** The part of the text that a choice takes the place of. */
  from: number;
  to: number;
  choices: Choice[];
}

export interface Known {
  /** Such as `metrics.loss`, most used first, with how many runs have it. */
  columns: readonly { field: string; key: string; runs: number }[];
  experiments: readonly string[];
}

const FIELDS: readonly (readonly [string, string])[] = [
  ['status', 'Completed, Failed, Running …'],
  ['experiment', 'its name'],
  ['name', "the run's name"],
  ['user', 'who submitted it'],
  ['created', '> 2026-11-01'],
  ['duration', '> 2h'],
  ['number', 'in its experiment'],
  ['target', 'where it ran'],
  ['type', ''],
];
const KINDS = ['metrics', 'params', 'tags', 'properties'];
const STATUSES = [
  'Completed',
  'Failed',
  'Canceled',
  'Running',
  'Queued',
  'Preparing',
  'Starting',
  'Finalizing',
  'NotStarted',
  'CancelRequested',
  'NotResponding',
];
const WORD = /[^\s()<>=!"']+$/;
const MOST = 12;

/** A field as a filter spells it. */
export const spelt = (field: string, key: string): string =>
  /^[^\s()<>=!"']+$/.test(key) ? `${field}.${key}` : `${field}.${quoted(key)}`;

export const quoted = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`;

const value = (text: string): string => (/^[^\s()<>=!"']+$/.test(text) ? text : quoted(text));

export function suggest(text: string, cursor: number, known: Known): Suggestions | undefined {
  const before = text.slice(0, cursor);
  if (isInsideText(before)) return undefined;
  const word = WORD.exec(before)?.[0] ?? '';
  const from = cursor - word.length;
  const to = cursor + (/^[^\s()<>=!"']*/.exec(text.slice(cursor))?.[0].length ?? 0);
  const ahead = before.slice(0, from).trimEnd();
  const compared = /([A-Za-z]+)\s*(=|!=|==)$/.exec(ahead)?.[1];
  if (compared) {
    const values = compared === 'status' ? STATUSES : compared === 'experiment' ? known.experiments : [];
    return offer(
      from,
      to,
      values.filter((one) => contains(one, word)).map((one) => ({ text: value(one), note: '' })),
      word,
    );
  }
  if (/[<>=!]$/.test(ahead)) return undefined;
  if (ahead && !/(^|[\s(])(and|or|not)$|\($/i.test(ahead)) {
    return offer(
      from,
      to,
      ['and', 'or'].filter((one) => one.startsWith(word.toLowerCase())).map((one) => ({ text: one, note: '' })),
      word,
    );
  }
  const fields = FIELDS.filter(([name]) => contains(name, word)).map(([name, note]) => ({ text: name, note }));
  const keyed = known.columns
    .filter((one) => contains(`${one.field}.${one.key}`, word))
    .map((one) => ({ text: spelt(one.field, one.key), note: `${one.runs} ${one.runs === 1 ? 'run' : 'runs'}` }));
  const isKeyed = KINDS.some((kind) => word.startsWith(kind.slice(0, Math.max(1, word.length))) && word.length > 1);
  return offer(from, to, isKeyed || word.includes('.') ? [...keyed, ...fields] : [...fields, ...keyed], word);
}

function offer(from: number, to: number, choices: Choice[], word: string): Suggestions | undefined {
  const found = choices
    .filter((one) => one.text !== word)
    .sort((a, b) => Number(b.text.startsWith(word)) - Number(a.text.startsWith(word)));
  return found.length ? { from, to, choices: found.slice(0, MOST) } : undefined;
}

const contains = (text: string, word: string): boolean => text.toLowerCase().includes(word.toLowerCase());

function isInsideText(before: string): boolean {
  let open = '';
  for (let at = 0; at < before.length; at++) {
    const one = before[at] as string;
    if (open && one === '\\') at++;
    else if (open) open = one === open ? '' : open;
    else if (one === '"' || one === "'") open = one;
  }
  return open !== '';
}

/** The text with a choice in its place, and where the cursor goes. */
export function taken(text: string, found: Suggestions, choice: Choice): { text: string; cursor: number } {
  const rest = text.slice(found.to);
  const put = choice.text + (rest.startsWith(' ') ? '' : ' ');
  return {
    text: text.slice(0, found.from) + put + rest,
    cursor: found.from + put.length + (rest.startsWith(' ') ? 1 : 0),
  };
}
