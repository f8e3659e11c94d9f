// Which lines two texts share: Myers' shortest edit, with a bound on the work, then by lines that are unique in both.

/** `count` lines from `before` (index in the old text) and `after` (in the new). */
export interface Part {
  kind: 'same' | 'removed' | 'added';
  before: number;
  after: number;
  count: number;
}

const MOST_EDITS = 1_500;
const MOST_STEPS = 4_000_000;

/** Return the parts that make `after` of `before`, in order. Ends soon on any input: far-off texts get a rougher answer. */
export function diffLines(before: readonly string[], after: readonly string[]): Part[] {
  const numbers = new Map<string, number>();
  const numbered = (lines: readonly string[]): Int32Array =>
    Int32Array.from(lines, (line) => {
      const known = numbers.get(line);
      if (known !== undefined) return known;
      numbers.set(line, numbers.size);
      return numbers.size - 1;
    });
  const work = { left: MOST_STEPS };
  const parts: Part[] = [];
  const a = numbered(before);
  const b = numbered(after);
  compare(a, b, { a0: 0, a1: a.length, b0: 0, b1: b.length }, parts, work);
  return joined(parts);
}

interface Window {
  a0: number;
  a1: number;
  b0: number;
  b1: number;
}

function compare(a: Int32Array, b: Int32Array, window: Window, parts: Part[], work: { left: number }): void {
  let { a0, a1, b0, b1 } = window;
  let head = 0;
  while (a0 + head < a1 && b0 + head < b1 && a[a0 + head] === b[b0 + head]) head++;
  let tail = 0;
  while (a1 - tail > a0 + head && b1 - tail > b0 + head && a[a1 - tail - 1] === b[b1 - tail - 1]) tail++;
  add(parts, 'same', a0, b0, head);
  a0 += head;
  b0 += head;
  a1 -= tail;
  b1 -= tail;
  if (
    a0 === a1 ||
    b0 === b1 ||
    !(shortest(a, b, { a0, a1, b0, b1 }, parts, work) || byAnchors(a, b, { a0, a1, b0, b1 }, parts, work))
  ) {
    add(parts, 'removed', a0, b0, a1 - a0);
    add(parts, 'added', a1, b0, b1 - b0);
  }
  add(parts, 'same', a1, b1, tail);
}

/** Myers' greedy algorithm; false when it would take too many edits or steps. */
function shortest(
  a: Int32Array,
  b: Int32Array,
  { a0, a1, b0, b1 }: Window,
  parts: Part[],
  work: { left: number },
): boolean {
  const n = a1 - a0;
  const m = b1 - b0;
  const most = Math.min(n + m, MOST_EDITS);
  const reach = new Int32Array(2 * most + 3); // by diagonal: how far into the old lines
  const middle = most + 1;
  const history: Int32Array[] = [];
  for (let edits = 0; edits <= most; edits++) {
    history.push(reach.slice(middle - edits - 1, middle + edits + 2));
    for (let diagonal = -edits; diagonal <= edits; diagonal += 2) {
      const isDown =
        diagonal === -edits || (diagonal !== edits && reach[middle + diagonal - 1]! < reach[middle + diagonal + 1]!);
      let x = isDown ? reach[middle + diagonal + 1]! : reach[middle + diagonal - 1]! + 1;
      let y = x - diagonal;
      const from = x;
      while (x < n && y < m && a[a0 + x] === b[b0 + y]) {
        x++;
        y++;
      }
      work.left -= 1 + x - from;
      reach[middle + diagonal] = x;
      if (x >= n && y >= m) {
        trace(history, n, m, a0, b0, parts);
        return true;
      }
    }
    if (work.left < 0) return false;
  }
  return false;
}

/** Walk back from the end over what was reached with one edit less each time. */
function trace(history: readonly Int32Array[], n: number, m: number, a0: number, b0: number, parts: Part[]): void {
  const found: Part[] = [];
  let x = n;
  let y = m;
  for (let edits = history.length - 1; edits >= 0; edits--) {
    const reach = history[edits]!;
    const at = (diagonal: number): number => reach[diagonal + edits + 1]!;
    const diagonal = x - y;
    const isDown = diagonal === -edits || (diagonal !== edits && at(diagonal - 1) < at(diagonal + 1));
    const fromX = edits === 0 ? 0 : isDown ? at(diagonal + 1) : at(diagonal - 1);
    const fromY = edits === 0 ? 0 : fromX - (isDown ? diagonal + 1 : diagonal - 1);
    const startX = edits === 0 ? 0 : isDown ? fromX : fromX + 1;
    const same = x - startX;
    if (same) found.push({ kind: 'same', before: a0 + startX, after: b0 + y - same, count: same });
    if (edits > 0) found.push({ kind: isDown ? 'added' : 'removed', before: a0 + fromX, after: b0 + fromY, count: 1 });
    x = fromX;
    y = fromY;
  }
  for (const part of found.reverse()) parts.push(part);
}

/** Split at lines that stand once in each text (patience), in the longest order that both share. */
function byAnchors(
  a: Int32Array,
  b: Int32Array,
  { a0, a1, b0, b1 }: Window,
  parts: Part[],
  work: { left: number },
): boolean {
  work.left -= a1 - a0 + b1 - b0;
  if (work.left < -MOST_STEPS) return false;
  const once = (lines: Int32Array, from: number, to: number): Map<number, number> => {
    const found = new Map<number, number>();
    for (let at = from; at < to; at++) found.set(lines[at]!, found.has(lines[at]!) ? -1 : at);
    return found;
  };
  const inB = once(b, b0, b1);
  const pairs: { x: number; y: number }[] = [];
  for (const [line, x] of once(a, a0, a1)) {
    const y = inB.get(line) ?? -1;
    if (x >= 0 && y >= 0) pairs.push({ x, y });
  }
  const anchors = rising(pairs.sort((one, other) => one.x - other.x));
  if (anchors.length === 0) return false;
  let from = { x: a0, y: b0 };
  for (const anchor of [...anchors, { x: a1, y: b1 }]) {
    compare(a, b, { a0: from.x, a1: anchor.x, b0: from.y, b1: anchor.y }, parts, work);
    if (anchor.x < a1) add(parts, 'same', anchor.x, anchor.y, 1);
    from = { x: anchor.x + 1, y: anchor.y + 1 };
  }
  return true;
}

/** The longest subsequence whose `y` rises. */
function rising(pairs: readonly { x: number; y: number }[]): { x: number; y: number }[] {
  const ends: number[] = [];
  const earlier: number[] = [];
  for (const [at, { y }] of pairs.entries()) {
    let low = 0;
    let high = ends.length;
    while (low < high) {
      const half = (low + high) >> 1;
      if (pairs[ends[half]!]!.y < y) low = half + 1;
      else high = half;
    }
    earlier.push(low > 0 ? ends[low - 1]! : -1);
    ends[low] = at;
  }
  const found: { x: number; y: number }[] = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = earlier[at]!) found.push(pairs[at]!);
  return found.reverse();
}

function add(parts: Part[], kind: Part['kind'], before: number, after: number, count: number): void {
  if (count > 0) parts.push({ kind, before, after, count });
}

/** Neighbours of a kind become one; in a change the removed lines come first. */
function joined(parts: readonly Part[]): Part[] {
  const found: Part[] = [];
  for (let at = 0; at < parts.length; ) {
    const part = parts[at]!;
    let end = at;
    const isSame = part.kind === 'same';
    const counts = { same: 0, removed: 0, added: 0 };
    while (end < parts.length && (parts[end]!.kind === 'same') === isSame)
      counts[parts[end]!.kind] += parts[end++]!.count;
    add(found, 'same', part.before, part.after, counts.same);
    add(found, 'removed', part.before, part.after, counts.removed);
    add(found, 'added', part.before + counts.removed, part.after, counts.added);
    at = end;
  }
  return found;
}
