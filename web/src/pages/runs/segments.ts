// The lines of a virtual table: runs, or groups that open into runs.
export interface Group {
  value: string | number | null;
  count: number;
  filter: string;
}

/** `length` lines from `start` on: a group's own line, or runs of the source `key`. */
export interface Segment {
  key: string;
  group?: Group;
  start: number;
  length: number;
}

export interface Place {
  segment: Segment;
  /** Which line of the segment. */
  at: number;
}

export function plainSegments(total: number): Segment[] {
  return total ? [{ key: '', start: 0, length: total }] : [];
}

/** `countOf` is what the source of an open group knows better than the groups' answer. */
export function groupSegments(
  groups: readonly Group[],
  open: readonly string[],
  countOf: (key: string) => number | undefined,
): Segment[] {
  const opened = new Set(open);
  const found: Segment[] = [];
  let start = 0;
  for (const group of groups) {
    found.push({ key: group.filter, group, start, length: 1 });
    start += 1;
    const length = opened.has(group.filter) ? (countOf(group.filter) ?? group.count) : 0;
    if (length) found.push({ key: group.filter, start, length });
    start += length;
  }
  return found;
}

export function lineCount(segments: readonly Segment[]): number {
  const last = segments[segments.length - 1];
  return last ? last.start + last.length : 0;
}

/** Where a line is, or undefined beyond the end. */
export function placeOf(segments: readonly Segment[], line: number): Place | undefined {
  let low = 0;
  let high = segments.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const segment = segments[middle] as Segment;
    if (line < segment.start) high = middle - 1;
    else if (line >= segment.start + segment.length) low = middle + 1;
    else return { segment, at: line - segment.start };
  }
  return undefined;
}

/** The runs between two lines, as windows of sources. */
export function windowsBetween(
  segments: readonly Segment[],
  first: number,
  last: number,
): { key: string; from: number; to: number }[] {
  const found: { key: string; from: number; to: number }[] = [];
  for (const segment of segments) {
    if (segment.group) continue;
    const from = Math.max(first, segment.start) - segment.start;
    const to = Math.min(last + 1, segment.start + segment.length) - segment.start;
    if (from < to) found.push({ key: segment.key, from, to });
  }
  return found;
}
