// Numbers, sizes, times and durations as people read them, in the viewer's zone.

/** Six significant digits; very large and very small numbers with an exponent. */
export function number(value: unknown): string {
  if (typeof value !== 'number') return value === null || value === undefined ? '' : String(value);
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  if (Number.isInteger(value) && Math.abs(value) < 1e15)
    return String(value)
      .replace(/\B(?=(\d{3})+$)/g, '\u202f')
      .replace('-', '−');
  const size = Math.abs(value);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e7)
      ? value
          .toExponential(4)
          .replace(/\.?0+e/, 'e')
          .replace('e+', 'e')
      : String(Number(value.toPrecision(6)));
  return text.replace(/^-/, '−').replace('e-', 'e−');
}

export function bytes(value: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];
  let unit = 0;
  for (; value >= 999.5 && unit < units.length - 1; unit++) value /= 1000;
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/** `850 ms`, `12.3 s`, `4 min 5 s`, `3 h 12 min`, `5 d 2 h`. */
export function duration(milliseconds: number): string {
  if (milliseconds < 0) milliseconds = 0;
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1000;
  if (seconds < 59.95) return `${seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return two(Math.floor(whole / 60), 'min', whole % 60, 's');
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return two(Math.floor(minutes / 60), 'h', minutes % 60, 'min');
  const hours = Math.round(seconds / 3600);
  return two(Math.floor(hours / 24), 'd', hours % 24, 'h');
}

const two = (a: number, unitA: string, b: number, unitB: string): string =>
  b ? `${a} ${unitA} ${b} ${unitB}` : `${a} ${unitA}`;

// Made once: making one takes longer than drawing a line of a table.
const DAY = new Intl.DateTimeFormat(undefined, { year: 'numeric', month: 'short', day: 'numeric' });
const MOMENT = new Intl.DateTimeFormat(undefined, {
  year: 'numeric',
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  timeZoneName: 'short',
});

/** `just now`, `5 min ago`, `3 h ago`, `yesterday`, then the date. */
export function ago(time: string | number | Date, now: number = Date.now()): string {
  const at = new Date(time);
  const seconds = (now - at.getTime()) / 1000;
  if (seconds < 5) return 'just now';
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ago`;
  if (seconds < 7 * 86_400) return `${Math.floor(seconds / 86_400)} d ago`;
  return DAY.format(at);
}

/** The exact time in the viewer's zone, with the zone. */
export function exact(time: string | number | Date): string {
  return MOMENT.format(new Date(time));
}

export const plural = (count: number, one: string, many = `${one}s`): string =>
  `${number(count)} ${count === 1 ? one : many}`;
