// A difference as rows to draw: old beside new, with long equal parts folded away.
import { splitLines } from '../highlight/tokens';
import { diffLines, type Part } from './lines';

/** Indices of lines; -1 where a side has none. `fold`: that many equal lines from there are not shown. */
export interface Row {
  kind: 'same' | 'changed' | 'fold';
  before: number;
  after: number;
  count: number;
}

export interface Counts {
  added: number;
  removed: number;
}

const CONTEXT = 3;
const SHORTEST_FOLD = 4;

export function countsOf(parts: readonly Part[]): Counts {
  const count = (kind: Part['kind']): number =>
    parts.reduce((sum, part) => sum + (part.kind === kind ? part.count : 0), 0);
  return { added: count('added'), removed: count('removed') };
}

/** Whether an old and a new line are versions of one. */
export type Similar = (before: number, after: number) => boolean;

/** Return the rows; `opened` holds the old indices of folds that shall be shown in full. */
export function rowsOf(
  parts: readonly Part[],
  opened: ReadonlySet<number> = new Set(),
  isSimilar: Similar = () => false,
): Row[] {
  const rows: Row[] = [];
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at]!;
    if (part.kind === 'same') {
      addSame(rows, part, at === 0, at === parts.length - 1, opened);
      continue;
    }
    const next = parts[at + 1];
    const removed = part.kind === 'removed' ? part : undefined;
    const added = part.kind === 'added' ? part : next?.kind === 'added' ? next : undefined;
    if (removed && added) at++;
    addChange(rows, removed, added, isSimilar);
  }
  return rows;
}

/** Set similar lines side by side, and between them the others in their order. */
function addChange(rows: Row[], removed: Part | undefined, added: Part | undefined, isSimilar: Similar): void {
  const olds = removed?.count ?? 0;
  const news = added?.count ?? 0;
  const anchors =
    removed && added && olds !== news
      ? similarPairs(olds, news, (old, fresh) => isSimilar(removed.before + old, added.after + fresh))
      : [];
  let old = 0;
  let fresh = 0;
  for (const [toOld, toFresh] of [...anchors, [olds, news] as const]) {
    while (old < toOld || fresh < toFresh) {
      rows.push({
        kind: 'changed',
        before: removed && old < toOld ? removed.before + old++ : -1,
        after: added && fresh < toFresh ? added.after + fresh++ : -1,
        count: 1,
      });
    }
    if (removed && added && toOld < olds)
      rows.push({ kind: 'changed', before: removed.before + old++, after: added.after + fresh++, count: 1 });
  }
}

const MOST_PAIRED = 60;

/** The most pairs of similar lines that keep their order; none for long changes, where it would take long. */
function similarPairs(olds: number, news: number, isSimilar: Similar): (readonly [number, number])[] {
  if (olds > MOST_PAIRED || news > MOST_PAIRED) return [];
  const width = news + 1;
  const best = new Uint8Array((olds + 1) * width);
  const similar = new Uint8Array(olds * news);
  for (let old = olds - 1; old >= 0; old--) {
    for (let fresh = news - 1; fresh >= 0; fresh--) {
      similar[old * news + fresh] = isSimilar(old, fresh) ? 1 : 0;
      const paired = similar[old * news + fresh] ? best[(old + 1) * width + fresh + 1]! + 1 : 0;
      best[old * width + fresh] = Math.max(paired, best[(old + 1) * width + fresh]!, best[old * width + fresh + 1]!);
    }
  }
  const found: (readonly [number, number])[] = [];
  for (let old = 0, fresh = 0; old < olds && fresh < news; ) {
    if (similar[old * news + fresh] && best[old * width + fresh] === best[(old + 1) * width + fresh + 1]! + 1)
      found.push([old++, fresh++]);
    else if (best[(old + 1) * width + fresh]! >= best[old * width + fresh + 1]!) old++;
    else fresh++;
  }
  return found;
}

function addSame(rows: Row[], part: Part, isFirst: boolean, isLast: boolean, opened: ReadonlySet<number>): void {
  const head = isFirst ? 0 : Math.min(CONTEXT, part.count);
  const tail = isLast ? 0 : Math.min(CONTEXT, part.count - head);
  const hidden = part.count - head - tail;
  const isFolded = hidden >= SHORTEST_FOLD && !opened.has(part.before + head);
  for (let line = 0; line < part.count; line++) {
    if (isFolded && line === head) {
      rows.push({ kind: 'fold', before: part.before + line, after: part.after + line, count: hidden });
      line += hidden - 1;
    } else rows.push({ kind: 'same', before: part.before + line, after: part.after + line, count: 1 });
  }
}

/** For one line of text: first all removed lines of a change, then the added ones. */
export function unified(rows: readonly Row[]): Row[] {
  const found: Row[] = [];
  for (let at = 0; at < rows.length; ) {
    if (rows[at]!.kind !== 'changed') {
      found.push(rows[at++]!);
      continue;
    }
    const start = at;
    while (rows[at]?.kind === 'changed') at++;
    const change = rows.slice(start, at);
    for (const row of change) if (row.before >= 0) found.push({ ...row, after: -1 });
    for (const row of change) if (row.after >= 0) found.push({ ...row, before: -1 });
  }
  return found;
}

/** Where two versions of one line differ, [from, to) in each; null when they have too little in common to say. */
export function changedWithin(
  before: string,
  after: string,
): { before: [number, number]; after: [number, number] } | null {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head++;
  let tail = 0;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++;
  const shared = before.slice(0, head).trim().length + before.slice(before.length - tail).trim().length;
  if (shared * 3 < Math.max(before.trim().length, after.trim().length)) return null;
  return { before: [head, before.length - tail], after: [head, after.length - tail] };
}

/** The parts of two texts; one without any text has no lines. */
export const partsOf = (before: string, after: string): Part[] =>
  diffLines(before === '' ? [] : splitLines(before), after === '' ? [] : splitLines(after));
