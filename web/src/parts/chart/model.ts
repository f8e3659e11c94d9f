// The geometry of a chart: places of buckets, smoothing, ranges of axes. Pure.
import type { Buckets } from '../../api/charts';
import type { Query } from '../../api/http';

/** `relative`: seconds since the line's start. */
export type XAxis = 'step' | 'relative' | 'wall';

export interface ChartView {
  x: XAxis;
  isLog: boolean;
  /** 0: none, to 0.99. */
  smoothing: number;
}

/** One line on the x axis: steps, or seconds. Arrays of one length, in the order of logging. */
export interface Placed {
  from: Float64Array;
  to: Float64Array;
  low: Float64Array;
  high: Float64Array;
  value: Float64Array;
  count: Float64Array;
  /** As `value` when nothing is smoothed. */
  smooth: Float64Array;
  /** Every bucket is one point: there is nothing more to see close up. */
  isWhole: boolean;
  /** Places by x, where x goes back: a second attempt starts again at an earlier step. Else null. */
  order: Uint32Array | null;
}

export type Range = readonly [number, number];

const X: readonly XAxis[] = ['step', 'relative', 'wall'];

/** The view that an address holds. */
export function viewOf(query: URLSearchParams): ChartView {
  const x = query.get('x') as XAxis;
  const smoothing = Number(query.get('smooth') ?? 0);
  return {
    x: X.includes(x) ? x : 'step',
    isLog: query.get('log') === '1',
    smoothing: smoothing > 0 && smoothing < 1 ? smoothing : 0,
  };
}

export const viewQuery = (view: ChartView): Query => ({
  x: view.x === 'step' ? null : view.x,
  log: view.isLog ? '1' : null,
  smooth: view.smoothing || null,
});

/** Put buckets on the axis. `start`: ms since 1970 at which relative time begins. */
export function place(buckets: Buckets, view: ChartView, start: number): Placed {
  const shift = view.x === 'relative' ? start : 0;
  const seconds = (ms: Float64Array): Float64Array => ms.map((one) => (one - shift) / 1000);
  const from = view.x === 'step' ? buckets.firstStep : seconds(buckets.firstMs);
  const to = view.x === 'step' ? buckets.lastStep : seconds(buckets.lastMs);
  const { minimum: low, maximum: high, last: value, count } = buckets;
  const smooth = view.smoothing > 0 ? smoothed(value, view.smoothing) : value;
  return { from, to, low, high, value, count, smooth, isWhole: count.every((one) => one === 1), order: orderOf(from) };
}

function orderOf(numbers: Float64Array): Uint32Array | null {
  for (let at = 1; at < numbers.length; at++) {
    if (numbers[at]! < numbers[at - 1]!)
      return Uint32Array.from(numbers.keys()).sort((one, other) => numbers[one]! - numbers[other]! || one - other);
  }
  return null;
}

/** Exponential moving average without the pull to zero at the start; NaN and infinities stay and are left out of it. */
export function smoothed(values: Float64Array, weight: number): Float64Array {
  let sum = 0;
  let total = 0;
  return values.map((value) => {
    if (!Number.isFinite(value)) return value;
    sum = sum * weight + value * (1 - weight);
    total = total * weight + (1 - weight);
    return sum / total;
  });
}

/** Where points lie; null without any. */
export function xRange(lines: readonly Placed[]): Range | null {
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines) {
    if (!line.from.length) continue;
    low = Math.min(low, line.from[line.order?.[0] ?? 0]!);
    for (const to of line.to) if (to > high) high = to;
  }
  return low > high ? null : [low, high];
}

/** The values in view, with some air; on a log axis those above zero. */
export function yRange(lines: readonly Placed[], view: Range, isLog: boolean, fixed?: Range): Range {
  if (fixed && !isLog) return fixed;
  let [low, high] = [Infinity, -Infinity];
  for (const line of lines) {
    for (let at = 0; at < line.from.length; at++) {
      if (line.to[at]! < view[0] || line.from[at]! > view[1]) continue;
      const [least, most] = [line.low[at]!, line.high[at]!];
      if (Number.isFinite(least) && least < low && (!isLog || least > 0)) low = least;
      if (Number.isFinite(most) && most > high && (!isLog || most > 0)) high = most;
      if (isLog && most > 0 && most < low && Number.isFinite(most)) low = most; // a bucket that reaches below zero
      if (Number.isFinite(least) && least > high && (!isLog || least > 0)) high = least;
    }
  }
  if (low > high) return isLog ? [0.1, 10] : [0, 1];
  if (isLog) {
    const [bottom, top] = [Math.log10(low), Math.log10(high)];
    const air = low === high ? 0.3 : (top - bottom) * 0.05;
    return [10 ** Math.max(-300, bottom - air), 10 ** Math.min(300, top + air)];
  }
  return widened(low, high, 0.06);
}

/** With some air; numbers that are as good as equal get as much as an axis needs to have different numbers on it, or `flat`. */
export function widened(low: number, high: number, part: number, flat?: number): Range {
  if (high - low > 1e308) return [Math.max(-8e307, low), Math.min(8e307, high)];
  const size = Math.max(Math.abs(low), Math.abs(high));
  const air = high - low <= size * 1e-11 ? (flat ?? (size * 0.1 || 1)) : (high - low) * part;
  return [low - air, high + air];
}

/** The clock in the viewer's zone, as exact as the distance of two marks (seconds) asks for. */
export function clock(seconds: number, apart: number): string {
  const at = new Date(seconds * 1000);
  if (apart >= 28 * 86_400) return at.toLocaleDateString(undefined, { year: 'numeric', month: 'short' });
  const isMidnight = at.getHours() === 0 && at.getMinutes() === 0 && at.getSeconds() === 0;
  if (apart >= 86_400 || (isMidnight && apart >= 60))
    return at.toLocaleDateString(undefined, { month: 'short', day: 'numeric' });
  const text = at.toLocaleTimeString(undefined, {
    hour: '2-digit',
    minute: '2-digit',
    ...(apart < 60 ? { second: '2-digit' } : {}),
  });
  return apart < 1 ? `${text}.${String(Math.round(at.getTime() % 1000)).padStart(3, '0')}` : text;
}

/** Index of the bucket at x, the nearest where none is, the newest of several; -1 without any. */
export function nearest(line: Placed, x: number): number {
  const at = (place: number): number => line.order?.[place] ?? place;
  let [low, high] = [0, line.from.length - 1];
  if (high < 0) return -1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (line.from[at(middle)]! <= x) low = middle;
    else high = middle - 1;
  }
  const [here, next] = [at(low), at(low + 1)];
  if (low + 1 < line.from.length && x > line.to[here]! && line.from[next]! - x < x - line.to[here]!) return next;
  return here;
}

/** The range to request so that all points of a window are loaded and the lines reach its edges. */
export function windowOf(view: ChartView, zoom: Range, start: number): { first: number; last: number } {
  const air = (zoom[1] - zoom[0]) * 0.02;
  const [low, high] = [zoom[0] - air, zoom[1] + air];
  if (view.x === 'step') return { first: Math.floor(low), last: Math.ceil(high) };
  const shift = view.x === 'relative' ? start : 0;
  return { first: nanoseconds(low, shift), last: nanoseconds(high, shift) };
}

/** JSON's numbers go to 2^53 exactly; a wall clock's ns are rounded to about a quarter of a microsecond. */
const nanoseconds = (seconds: number, shiftMs: number): number => Math.round((seconds * 1000 + shiftMs) * 1e6);

/** Zoom by a factor about the middle, or about x; not beyond the whole. */
export function scaled(window: Range, factor: number, whole: Range): Range | null {
  const [low, high] = window;
  const middle = (low + high) / 2;
  const half = ((high - low) / 2) * factor;
  return clamped([middle - half, middle + half], whole);
}

/** Null when everything is in view. */
export function clamped(window: Range, whole: Range): Range | null {
  const size = window[1] - window[0];
  if (!(size > 0) || size >= whole[1] - whole[0]) return null;
  if (size <= Math.max(Math.abs(window[0]), Math.abs(window[1])) * 1e-11) return null;
  const low = Math.min(Math.max(window[0], whole[0]), whole[1] - size);
  return [low, low + size];
}
