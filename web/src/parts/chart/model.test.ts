import { describe, expect, it } from 'vitest';
import { bucketsOf, type Buckets } from '../../api/charts';
import {
  clamped,
  clock,
  nearest,
  place,
  scaled,
  smoothed,
  viewOf,
  viewQuery,
  windowOf,
  xRange,
  yRange,
  type ChartView,
} from './model';

const VIEW: ChartView = { x: 'step', isLog: false, smoothing: 0 };
const f = (...numbers: number[]): Float64Array => Float64Array.from(numbers);

function buckets(changes: Partial<Buckets> = {}): Buckets {
  const steps = f(0, 10, 20);
  return {
    firstStep: steps,
    lastStep: steps,
    firstMs: f(5000, 6000, 9000),
    lastMs: f(5000, 6000, 9000),
    minimum: f(1, 2, 3),
    maximum: f(1, 2, 3),
    last: f(1, 2, 3),
    count: f(1, 1, 1),
    ...changes,
  };
}

describe('place', () => {
  it('puts steps, seconds since the start, and the wall clock on the axis', () => {
    expect([...place(buckets(), VIEW, 4000).from]).toEqual([0, 10, 20]);
    expect([...place(buckets(), { ...VIEW, x: 'relative' }, 4000).from]).toEqual([1, 2, 5]);
    expect([...place(buckets(), { ...VIEW, x: 'wall' }, 4000).to]).toEqual([5, 6, 9]);
  });
  it('knows where to look when steps go back, and takes the newest', () => {
    const line = place(buckets({ firstStep: f(5, 0, 5), lastStep: f(5, 0, 5) }), VIEW, 0);
    expect([[...line.value], [...line.order!], xRange([line])]).toEqual([
      [1, 2, 3],
      [1, 0, 2],
      [0, 5],
    ]);
    expect([0, 2, 4, 5, 9].map((x) => nearest(line, x))).toEqual([1, 1, 0, 2, 2]);
    expect(place(buckets(), VIEW, 0).order).toBe(null);
  });
  it('knows whether there is more to see close up', () => {
    expect(place(buckets(), VIEW, 0).isWhole).toBe(true);
    expect(place(buckets({ count: f(1, 2, 1) }), VIEW, 0).isWhole).toBe(false);
  });
});

it('smooths without a pull to zero, and leaves gaps as they are', () => {
  expect([...smoothed(f(4, 4, 4), 0.9)]).toEqual([4, 4, 4].map((one) => expect.closeTo(one, 10)));
  const found = smoothed(f(0, NaN, 1), 0.5);
  expect([found[0], found[1], found[2]]).toEqual([0, NaN, expect.closeTo(2 / 3, 10)]);
});

describe('ranges', () => {
  const line = place(buckets({ minimum: f(-5, 2, NaN), maximum: f(1, 1000, NaN), last: f(0, 3, NaN) }), VIEW, 0);
  it('hold the extremes of every bucket in view', () => {
    expect(xRange([line])).toEqual([0, 20]);
    const [low, high] = yRange([line], [0, 20], false);
    expect([low < -5, high > 1000, high < 1100]).toEqual([true, true, true]);
    expect(yRange([line], [10, 20], false)[0]).toBeGreaterThan(-100);
    expect(yRange([line], [10, 20], false)[0]).toBeLessThan(2);
  });
  it('on a log axis leave zero and below out', () => {
    const [low, high] = yRange([line], [0, 20], true);
    expect([low > 0, low <= 1, high >= 1000]).toEqual([true, true, true]);
  });
  it('are there without points, of one value, and with infinities', () => {
    expect([xRange([]), yRange([], [0, 1], false), yRange([], [0, 1], true)]).toEqual([null, [0, 1], [0.1, 10]]);
    const flat = place(buckets({ minimum: f(2, 2, 2), maximum: f(2, 2, Infinity) }), VIEW, 0);
    expect(yRange([flat], [0, 20], false)).toEqual([1.8, 2.2]);
    expect(yRange([flat], [0, 20], false, [0, 100])).toEqual([0, 100]);
    const close = place(buckets({ minimum: f(1e17, 1e17, 1e17), maximum: f(1e17 + 32, 1e17, 1e17) }), VIEW, 0);
    expect(yRange([close], [0, 20], false)).toEqual([expect.closeTo(0.9e17, -3), expect.closeTo(1.1e17, -3)]);
  });
});

it('has ends for the largest and the smallest numbers there are', () => {
  const line = place(buckets({ minimum: f(-1e308, 5e-324, 1), maximum: f(1e308, 1e308, 1) }), VIEW, 0);
  for (const isLog of [false, true]) {
    const [low, high] = yRange([line], [0, 20], isLog);
    expect([Number.isFinite(high - low), high > low, !isLog || low > 0]).toEqual([true, true, true]);
  }
});

it('writes the clock as exactly as the axis asks for', () => {
  const at = new Date(2026, 10, 15, 9, 5, 7, 250).getTime() / 1000;
  const midnight = new Date(2026, 10, 15).getTime() / 1000;
  expect(clock(at, 60)).toMatch(/9.05/);
  expect(clock(at, 5)).toMatch(/9.05.07/);
  expect(clock(at, 0.1)).toMatch(/07.*\.250$/);
  for (const text of [clock(midnight, 3600), clock(at, 86_400)]) expect(text).toMatch(/15/);
  expect(clock(at, 60 * 86_400)).toMatch(/2026/);
});

it('finds the bucket at or nearest to x', () => {
  const line = place(buckets(), VIEW, 0);
  expect([-5, 0, 4, 6, 10, 14, 16, 99].map((x) => nearest(line, x))).toEqual([0, 0, 0, 1, 1, 1, 2, 2]);
  expect(nearest(place(buckets({ firstStep: f(), lastStep: f() }), VIEW, 0), 1)).toBe(-1);
});

describe('zoom', () => {
  it('asks for a little more than the window, in steps or ns', () => {
    expect(windowOf(VIEW, [100, 200], 0)).toEqual({ first: 98, last: 202 });
    expect(windowOf({ ...VIEW, x: 'relative' }, [0, 100], 1000)).toEqual({ first: -1e9, last: 103e9 });
    expect(windowOf({ ...VIEW, x: 'wall' }, [100, 200], 1000)).toEqual({ first: 98e9, last: 202e9 });
  });
  it('stays within the whole', () => {
    expect(scaled([0, 100], 0.5, [0, 100])).toEqual([25, 75]);
    expect(scaled([25, 75], 4, [0, 100])).toBe(null);
    expect(clamped([-10, 10], [0, 100])).toEqual([0, 20]);
    expect(clamped([5, 5], [0, 100])).toBe(null);
  });
});

it('reads a view from the address and writes it there', () => {
  const view: ChartView = { x: 'wall', isLog: true, smoothing: 0.6 };
  expect(viewQuery(view)).toEqual({ x: 'wall', log: '1', smooth: 0.6 });
  expect(viewOf(new URLSearchParams('x=wall&log=1&smooth=0.6'))).toEqual(view);
  expect(viewOf(new URLSearchParams('x=evil&smooth=7'))).toEqual(VIEW);
});

it('reads the columns of a frame, at any place in the answer', () => {
  const body = new Uint8Array(3 + 8 * 8 * 2).subarray(3);
  const numbers = Float64Array.from({ length: 16 }, (_, index) => index);
  body.set(new Uint8Array(numbers.buffer));
  const found = bucketsOf({ head: { count: 2 }, body }) as Buckets;
  expect([[...found.firstStep], [...found.maximum], [...found.count]]).toEqual([
    [0, 1],
    [10, 11],
    [14, 15],
  ]);
  expect(bucketsOf({ head: { count: 0, error: { code: 'NotFound', what: 'gone' } }, body })).toMatchObject({
    code: 'NotFound',
    what: 'gone',
  });
});
