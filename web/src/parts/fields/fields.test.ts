import { describe, expect, it } from 'vitest';
import { dragged, moved, passing, resized, without } from './brush';
import { magnitudes, niceNumbers, scaleOf } from './scale';
import { asNumber, asValue, compareValues, varies, type Field } from './values';

const field = (id: string, ...values: Field['values']): Field => ({ id, label: id, group: 'Parameters', values });

describe('values', () => {
  it.each([
    ['0.01', 0.01],
    [' 1e-3 ', 0.001],
    ['-5', -5],
    ['.5', 0.5],
    ['1e', '1e'],
    ['0x10', '0x10'],
    ['adam', 'adam'],
    ['', null],
    [null, null],
    [undefined, null],
    [NaN, null],
    [Infinity, null],
    ['1e999', null],
    [true, 'true'],
    [[1, 2], '[1,2]'],
  ])('%o is %o', (found, value) => expect(asValue(found)).toBe(value));

  it('takes no words for a metric', () => {
    expect(asNumber('NaN')).toBeNull();
    expect(asNumber('Infinity')).toBeNull();
    expect(asNumber(2)).toBe(2);
  });

  it('orders numbers, then words by their numbers, then nothing', () => {
    expect([null, 'b10', 3, 'b9', 1].sort(compareValues)).toEqual([1, 3, 'b9', 'b10', null]);
  });

  it('counts a missing value as another', () => {
    expect(varies(field('a', 1, 1))).toBe(false);
    expect(varies(field('a', 1, null))).toBe(true);
  });
});

describe('scales', () => {
  it('is linear between the least and the greatest', () => {
    const scale = scaleOf([10, 20, null, 15]);
    expect([10, 15, 20, null].map(scale.at)).toEqual([0, 0.5, 1, null]);
    expect(scale.kind).toBe('linear');
    expect(scale.valueAt(0.25)).toBe(12.5);
    expect(scale.ticks.map((tick) => tick.text)).toEqual(['10', '12', '14', '16', '18', '20']);
  });

  it('is logarithmic where the numbers are of many magnitudes, unless told otherwise', () => {
    const scale = scaleOf([0.001, 0.1, 10]);
    expect(scale.kind).toBe('log');
    expect(scale.at(0.1)).toBeCloseTo(0.5, 12);
    expect(scale.valueAt(0.5)).toBeCloseTo(0.1, 12);
    expect(scale.at(0)).toBeNull();
    expect(scaleOf([0.001, 10], false).kind).toBe('linear');
    expect(scaleOf([1, 2], true).kind).toBe('log');
  });

  it('is never logarithmic with zero or less', () => {
    expect(scaleOf([0, 1000], true).kind).toBe('linear');
    expect(scaleOf([-1, 1000], true).canLog).toBe(false);
  });

  it('puts one value in the middle', () => {
    expect(scaleOf([7, 7]).at(7)).toBe(0.5);
    expect(scaleOf([7, 7], true).at(7)).toBe(0.5);
    expect(scaleOf([7]).ticks).toEqual([{ at: 0.5, text: '7' }]);
  });

  it('gives words a place each, in order', () => {
    const scale = scaleOf(['sgd', 'adam', null, 3]);
    expect(scale.kind).toBe('words');
    expect(scale.ticks.map((tick) => tick.text)).toEqual(['3', 'adam', 'sgd']);
    expect(scale.at('adam')).toBeCloseTo(0.5, 12);
    expect(scale.at('other')).toBeNull();
    expect(scale.valueAt(0.99)).toBe('sgd');
  });

  it('writes at most twenty of many words', () => {
    expect(scaleOf(Array.from({ length: 1000 }, (_, index) => `w${index}`)).ticks).toHaveLength(20);
  });

  it('has no axis for nothing', () => expect(scaleOf([null]).ticks).toEqual([]));

  it('chooses round numbers', () => {
    expect(niceNumbers(0, 1)).toEqual([0, 0.2, 0.4, 0.6, 0.8, 1]);
    expect(niceNumbers(-3, 7)).toEqual([-2, 0, 2, 4, 6]);
    expect(magnitudes(1e-5, 1)).toEqual([1e-5, 1e-4, 1e-3, 0.01, 0.1, 1]);
    expect(magnitudes(1e-12, 1e12)).toEqual([1e-12, 1e-8, 1e-4, 1, 1e4, 1e8, 1e12]);
    expect(magnitudes(15, 90)).toEqual([20, 50]);
    expect(magnitudes(3, 4)).toEqual([3, 4]);
  });
});

describe('brushes', () => {
  const lr = field('lr', 0.001, 0.01, 0.1, null);
  const kind = field('kind', 'a', 'b', 'b', 'b');
  const scales = new Map([lr, kind].map((one) => [one.id, scaleOf(one.values)]));

  it('keeps rows that lie in all of them', () => {
    expect(passing(4, [lr, kind], scales, {})).toEqual([true, true, true, true]);
    expect(passing(4, [lr, kind], scales, { lr: [0.5, 1] })).toEqual([false, true, true, false]);
    expect(passing(4, [lr, kind], scales, { lr: [0, 0.5], kind: [0.5, 1] })).toEqual([false, true, false, false]);
  });

  it('leaves out marks of axes that are not shown', () => {
    expect(passing(4, [kind], scales, { lr: [0.5, 1] })).toEqual([true, true, true, true]);
  });

  it('is a drag in either direction, kept on the axis; a click is none', () => {
    expect(dragged(0.8, 0.2)).toEqual([0.2, 0.8]);
    expect(dragged(-1, 0.5)).toEqual([0, 0.5]);
    expect(dragged(0.02, 0.98)).toEqual([0, 1]);
    expect(dragged(0.5, 0.505)).toBeNull();
  });

  it('moves and grows by keys without leaving the axis', () => {
    expect(moved([0.2, 0.4], 0.1).map((one) => one.toFixed(2))).toEqual(['0.30', '0.50']);
    expect(moved([0.2, 0.4], -1)).toEqual([0, 0.2]);
    expect(resized([0.2, 0.4], 5)).toEqual([0.2, 1]);
    expect(resized([0.2, 0.4], -1)).toEqual([0.2, 0.22]);
    expect(without({ a: [0, 1], b: [0, 1] }, 'a')).toEqual({ b: [0, 1] });
  });
});
