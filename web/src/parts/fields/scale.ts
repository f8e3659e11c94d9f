// Axes: where a value lies between 0 and 1, and which values are written beside the axis.
import { number } from '../../lib/format';
import { compareValues, isNumeric, type Value } from './values';

export interface Tick {
  at: number;
  text: string;
}

export interface Scale {
  kind: 'linear' | 'log' | 'words';
  /** 0 to 1; null for no value. */
  at: (value: Value) => number | null;
  /** The number at a position; of words the nearest. */
  valueAt: (position: number) => Value;
  ticks: readonly Tick[];
  /** Whether a logarithmic axis is possible. */
  canLog: boolean;
}

const MOST_WORDS = 20;
const FAR = 50; // from here on a span of positive numbers is shown by its magnitudes

/** An axis for these values. `isLog` undefined: as the values suggest. */
export function scaleOf(values: readonly Value[], isLog?: boolean): Scale {
  if (!isNumeric(values)) return words(values);
  const numbers = values.filter((value): value is number => value !== null);
  let low = Infinity;
  let high = -Infinity;
  for (const value of numbers) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  const canLog = low > 0;
  return canLog && (isLog ?? high / low >= FAR) ? logarithmic(low, high) : linear(low, high, canLog);
}

function linear(low: number, high: number, canLog: boolean): Scale {
  const span = high - low;
  return {
    kind: 'linear',
    canLog,
    at: (value) => (typeof value !== 'number' ? null : span === 0 ? 0.5 : (value - low) / span),
    valueAt: (position) => low + position * span,
    ticks:
      span === 0
        ? [{ at: 0.5, text: number(low) }]
        : niceNumbers(low, high).map((value) => ({ at: (value - low) / span, text: number(value) })),
  };
}

function logarithmic(low: number, high: number): Scale {
  const start = Math.log10(low);
  const span = Math.log10(high) - start;
  const at = (value: number): number => (span === 0 ? 0.5 : (Math.log10(value) - start) / span);
  return {
    kind: 'log',
    canLog: true,
    at: (value) => (typeof value === 'number' && value > 0 ? at(value) : null),
    valueAt: (position) => 10 ** (start + position * span),
    ticks: magnitudes(low, high).map((value) => ({ at: at(value), text: number(value) })),
  };
}

function words(values: readonly Value[]): Scale {
  const known = [...new Set(values.filter((value) => value !== null))].sort(compareValues);
  const places = new Map<Value, number>(known.map((value, index) => [value, (index + 0.5) / known.length]));
  const every = Math.ceil(known.length / MOST_WORDS);
  return {
    kind: 'words',
    canLog: false,
    at: (value) => places.get(value) ?? null,
    valueAt: (position) => known[Math.min(known.length - 1, Math.max(0, Math.floor(position * known.length)))] ?? null,
    ticks: known.flatMap((value, index) =>
      index % every === 0
        ? [{ at: (index + 0.5) / known.length, text: typeof value === 'number' ? number(value) : String(value) }]
        : [],
    ),
  };
}

/** About five round numbers between `low` and `high`. */
export function niceNumbers(low: number, high: number, about = 5): number[] {
  const rough = (high - low) / about;
  const magnitude = 10 ** Math.floor(Math.log10(rough));
  const step = magnitude * ([1, 2, 5, 10].find((factor) => factor * magnitude >= rough) ?? 10);
  const found: number[] = [];
  for (let index = Math.ceil(low / step); index * step <= high + step * 1e-9; index++)
    found.push(Number((index * step).toPrecision(12)));
  return found;
}

/** Powers of ten between `low` and `high`, thinned to at most seven; 2s and 5s too where there are few; else the ends. */
export function magnitudes(low: number, high: number): number[] {
  const first = Math.ceil(Math.log10(low) - 1e-9);
  const last = Math.floor(Math.log10(high) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / 7));
  let found: number[] = [];
  for (let power = first; power <= last; power += every) found.push(Number(`1e${power}`));
  if (found.length < 3) {
    found = [];
    for (let power = first - 1; power <= last; power++)
      for (const digit of [1, 2, 5]) found.push(Number(`${digit}e${power}`));
    found = found.filter((value) => value >= low && value <= high);
  }
  return found.length > 1 ? found : [...new Set([low, high])];
}
