import { describe, expect, it } from 'vitest';
import { columnOf, drawableOf, imageType, parsePython } from './values';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

it('reads what Python calls JSON', () => {
  expect(parsePython('[1, NaN, "NaN, \\"Infinity", -Infinity, {"a": Infinity}]')).toEqual([
    1,
    'NaN',
    'NaN, "Infinity',
    '-Infinity',
    { a: 'Infinity' },
  ]);
  expect(() => parsePython('[1')).toThrow();
});

it('reads columns of every type', () => {
  expect(columnOf({ head: { column: 'x', type: 'json' }, body: bytes('["a", null, NaN]') })).toEqual({
    name: 'x',
    cells: ['a', null, 'NaN'],
  });
  expect(columnOf({ head: { column: 'b', type: 'b1' }, body: new Uint8Array([1, 0]) }).cells).toEqual([true, false]);
  expect(
    columnOf({ head: { column: 'i', type: 'i8' }, body: new Uint8Array(new BigInt64Array([-3n, 4n]).buffer) }).cells,
  ).toEqual([-3, 4]);
});

describe('the JSON forms', () => {
  it('are a matrix, an accuracy table, columns, or JSON', () => {
    expect(
      drawableOf('{"schema_type": "confusion_matrix", "data": {"class_labels": ["a", 7], "matrix": [[1, 2], [3, 4]]}}'),
    ).toEqual({
      kind: 'matrix',
      labels: ['a', '7'],
      rows: [
        [1, 2],
        [3, 4],
      ],
    });
    expect(
      drawableOf(
        '{"data": {"class_labels": ["x"], "probability_tables": [[[1,2,3,4]]], "probability_thresholds": [0.5]}}',
      ),
    ).toMatchObject({ kind: 'accuracy', labels: ['x'], thresholds: [0.5] });
    expect(drawableOf('{"data": {"bin_edges": [0, 1], "bin_counts": [5, 6], "mean": 0.5}}')).toEqual({
      kind: 'columns',
      columns: [
        { name: 'bin_edges', cells: [0, 1] },
        { name: 'bin_counts', cells: [5, 6] },
      ],
      facts: [['mean', 0.5]],
    });
    expect(drawableOf('{"data": {"deep": {"a": 1}}}').kind).toBe('json');
    expect(drawableOf('[1, 2]')).toEqual({ kind: 'json', text: '[\n  1,\n  2\n]' });
    expect(drawableOf('<script>')).toEqual({ kind: 'json', text: '<script>' });
  });
});

it('knows images by their bytes', () => {
  expect(imageType(new Uint8Array([0x89, 0x50, 0x4e, 0x47, 1]))).toBe('image/png');
  expect(imageType(bytes('<?xml version="1.0"?>\n<svg xmlns="x">'))).toBe('image/svg+xml');
  expect(imageType(bytes('<html><svg>'))).toBe(null);
});
