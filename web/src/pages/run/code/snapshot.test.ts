import { expect, it } from 'vitest';
import { comparedOf, firstOf, type SnapshotFile } from './snapshot';

const file = (path: string, size = 1): SnapshotFile => ({
  path,
  kind: 'file',
  size,
  mode: 0o644,
  key: path,
  target: '',
});

it('opens the script of the run first, else what looks like one', () => {
  const files = ['README.md', 'a.py', 'src/go.py', 'train.py'].map((path) => file(path));
  expect(firstOf(files, './src/go.py')?.path).toBe('src/go.py');
  expect(firstOf(files, null)?.path).toBe('train.py');
  expect(firstOf([file('b.txt'), file('README')], 'gone.py')?.path).toBe('README');
  expect(firstOf([], 'x')).toBeUndefined();
});

it('puts what was added, removed and changed in one order', () => {
  const found = comparedOf({
    added: [file('b')],
    removed: [file('a')],
    changed: [{ path: 'c', before: file('c', 1), after: file('c', 5) }],
    more: false,
  });
  expect(found.map((one) => [one.path, one.change, one.size])).toEqual([
    ['a', 'removed', 1],
    ['b', 'added', 1],
    ['c', 'changed', 5],
  ]);
});

it('knows a renamed file by its bytes, unless several have them', () => {
  const as = (path: string, key: string): SnapshotFile => ({ ...file(path), key });
  const found = comparedOf({
    added: [as('new', 'k'), as('x1', 'x'), as('x2', 'x')],
    removed: [as('old', 'k'), as('x0', 'x')],
    changed: [],
    more: false,
  });
  expect(found.map((one) => [one.path, one.change, one.before?.path])).toEqual([
    ['new', 'renamed', 'old'],
    ['x0', 'removed', 'x0'],
    ['x1', 'added', undefined],
    ['x2', 'added', undefined],
  ]);
});
