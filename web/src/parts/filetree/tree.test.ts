import { expect, it } from 'vitest';
import { entriesOf, treeOf } from './tree';

const files = ['outputs/b10.txt', 'outputs/b9.txt', 'outputs/deep/er/x', 'top', 'logs/a'].map((path, at) => ({
  path,
  size: at + 1,
}));
const drawn = (filter = ''): string[] =>
  entriesOf(treeOf(files, filter), () => true).map(
    (one) =>
      `${' '.repeat(one.depth)}${one.kind === 'folder' ? `${one.folder.name}/ ${one.folder.count} ${one.folder.size}` : one.name}`,
  );

it('shows folders first, numbers in their order, with counts and sizes of all below', () => {
  expect(drawn()).toEqual([
    'logs/ 1 5',
    ' a',
    'outputs/ 3 6',
    ' deep/ 1 3',
    '  er/ 1 3',
    '   x',
    ' b9.txt',
    ' b10.txt',
    'top',
  ]);
});

it('keeps what holds every word of the filter', () => {
  expect(drawn('B9 out')).toEqual(['outputs/ 1 2', ' b9.txt']);
  expect(drawn('nothing')).toEqual([]);
});

it('closes folders', () => {
  expect(entriesOf(treeOf(files), () => false).map((one) => one.kind)).toEqual(['folder', 'folder', 'file']);
});

it('takes names of objects for names', () => {
  expect(
    entriesOf(treeOf([{ path: '__proto__/constructor', size: 1 }]), () => true).map((one) =>
      one.kind === 'file' ? one.path : one.folder.path,
    ),
  ).toEqual(['__proto__', '__proto__/constructor']);
});
