import { describe, expect, it } from 'vitest';
import type { Run } from '../../api/types';
import { gitOf, groupsOf, packagesOf } from './facts';
import { diffLines, type Part } from './lines';
import { changedWithin, countsOf, rowsOf, unified } from './rows';
import { changeOf, differing, flat, valuesSideBySide } from './values';

const lines = (text: string): string[] => (text ? text.split('') : []);
const short = (parts: readonly Part[]): string =>
  parts.map((part) => `${{ same: '=', removed: '-', added: '+' }[part.kind]}${part.count}`).join(' ');

/** What the parts make of `before`: must be `after`, and removed lines must be those of `before`. */
function applied(before: readonly string[], after: readonly string[], parts: readonly Part[]): string[] {
  const made: string[] = [];
  let at = 0;
  for (const part of parts) {
    expect(part.before).toBe(at);
    expect(part.after).toBe(made.length);
    if (part.kind !== 'added') at += part.count;
    if (part.kind === 'same') made.push(...before.slice(part.before, part.before + part.count));
    if (part.kind === 'added') made.push(...after.slice(part.after, part.after + part.count));
  }
  expect(at).toBe(before.length);
  return made;
}

describe('lines', () => {
  it.each([
    ['', '', ''],
    ['abc', 'abc', '=3'],
    ['', 'ab', '+2'],
    ['ab', '', '-2'],
    ['abc', 'axc', '=1 -1 +1 =1'],
    ['abcabba', 'cbabac', '-1 +1 =1 -1 =2 -1 =1 +1'],
    ['abcd', 'acbd', '=1 -1 =1 +1 =1'],
  ])('%s → %s', (before, after, expected) => {
    const parts = diffLines(lines(before), lines(after));
    expect(applied(lines(before), lines(after), parts)).toEqual(lines(after));
    const edits = (text: string): number =>
      [...text.matchAll(/[-+](\d+)/g)].reduce((sum, match) => sum + Number(match[1]), 0);
    expect(edits(short(parts))).toBe(edits(expected));
    if (before.length < 5) expect(short(parts)).toBe(expected);
  });

  it('makes the new text of the old one, whatever they are', () => {
    let seed = 1;
    const random = (most: number): number => {
      seed = (seed * 48271) % 2147483647;
      return seed % most;
    };
    for (let round = 0; round < 300; round++) {
      const text = (): string[] => Array.from({ length: random(30) }, () => String(random(1 + (round % 7))));
      const [before, after] = [text(), text()];
      expect(applied(before, after, diffLines(before, after))).toEqual(after);
    }
  });

  it('finds one changed line among 100,000', () => {
    const before = Array.from({ length: 100_000 }, (_, at) => `line ${at}`);
    const after = before.with(50_000, 'other');
    expect(diffLines(before, after)).toEqual([
      { kind: 'same', before: 0, after: 0, count: 50_000 },
      { kind: 'removed', before: 50_000, after: 50_000, count: 1 },
      { kind: 'added', before: 50_001, after: 50_000, count: 1 },
      { kind: 'same', before: 50_001, after: 50_001, count: 49_999 },
    ]);
  });

  it('splits large texts with many changes at lines that are unique', () => {
    const before = Array.from({ length: 20_000 }, (_, at) => `line ${at}`);
    const after = before.map((line, at) => (at % 4 === 0 ? `new ${at}` : line));
    const parts = diffLines(before, after);
    expect(applied(before, after, parts)).toEqual(after);
    expect(countsOf(parts)).toEqual({ added: 5_000, removed: 5_000 });
  });

  it('gives up in bounded time where nothing helps', () => {
    const text = (step: number): string[] => Array.from({ length: 60_000 }, (_, at) => String((at * step) % 97));
    const parts = diffLines(text(31), text(57));
    expect(applied(text(31), text(57), parts)).toEqual(text(57));
  });
});

describe('rows', () => {
  const before = lines('abcdefghijklmnopqrst');
  const after = before.with(9, 'X');
  const parts = diffLines(before, after);

  it('folds what is equal, but for three lines around a change', () => {
    expect(rowsOf(parts).map((row) => `${row.kind}:${row.before}:${row.after}:${row.count}`)).toEqual([
      'fold:0:0:6',
      'same:6:6:1',
      'same:7:7:1',
      'same:8:8:1',
      'changed:9:9:1',
      'same:10:10:1',
      'same:11:11:1',
      'same:12:12:1',
      'fold:13:13:7',
    ]);
  });
  it('opens a fold', () => {
    expect(rowsOf(parts, new Set([0])).filter((row) => row.kind === 'fold')).toEqual([
      { kind: 'fold', before: 13, after: 13, count: 7 },
    ]);
    expect(rowsOf(parts, new Set([0, 13]))).toHaveLength(20);
  });
  it('sets old lines beside new ones, and under each other for one column', () => {
    const rows = rowsOf(diffLines(lines('ab'), lines('xyz')));
    expect(rows.map((row) => [row.before, row.after])).toEqual([
      [0, 0],
      [1, 1],
      [-1, 2],
    ]);
    expect(unified(rows).map((row) => [row.before, row.after])).toEqual([
      [0, -1],
      [1, -1],
      [-1, 0],
      [-1, 1],
      [-1, 2],
    ]);
  });
  it('sets versions of a line beside each other where a change has more old lines than new ones', () => {
    const [old, fresh] = [['# comment', 'for step in range(3):'], ['for step in range(5):']];
    const rows = rowsOf(
      diffLines(old, fresh),
      new Set(),
      (one, other) => changedWithin(old[one]!, fresh[other]!) !== null,
    );
    expect(rows.map((row) => [row.before, row.after])).toEqual([
      [0, -1],
      [1, 0],
    ]);
    const swapped = rowsOf(
      diffLines(fresh, old),
      new Set(),
      (one, other) => changedWithin(fresh[one]!, old[other]!) !== null,
    );
    expect(swapped.map((row) => [row.before, row.after])).toEqual([
      [-1, 0],
      [0, 1],
    ]);
  });
  it('finds the changed part of a line', () => {
    expect(changedWithin('lr = 0.1  # rate', 'lr = 0.25  # rate')).toEqual({ before: [7, 8], after: [7, 9] });
    expect(changedWithin('aaaa', 'aaaaaa')).toEqual({ before: [4, 4], after: [4, 6] });
    expect(changedWithin('import os', 'print(1)')).toBeNull();
  });
});

describe('values', () => {
  it('keeps what differs, with nothing where there is nothing', () => {
    expect(differing([{ a: '1', b: '2' }, { b: '3', c: '4' }, { b: '2' }])).toEqual([
      { name: 'a', values: ['1', undefined, undefined], isSame: false },
      { name: 'b', values: ['2', '3', '2'], isSame: false },
      { name: 'c', values: [undefined, '4', undefined], isSame: false },
    ]);
    expect(valuesSideBySide([{ a: '1' }, { a: '1' }])).toEqual([{ name: 'a', values: ['1', '1'], isSame: true }]);
  });
  it('is not fooled by names of every object', () => {
    expect(differing([{ toString: 'x' }, {}])).toEqual([{ name: 'toString', values: ['x', undefined], isSame: false }]);
  });
  it('names what became of a value', () => {
    expect([changeOf('1', '1'), changeOf(undefined, '1'), changeOf('1', undefined), changeOf('1', '2')]).toEqual([
      'same',
      'added',
      'removed',
      'changed',
    ]);
  });
  it('flattens', () => {
    expect(flat({ a: { b: 1, c: [1, { d: 2 }] }, e: null, f: '', g: false })).toEqual({
      'a.b': '1',
      'a.c': '1 {"d":2}',
      g: 'false',
    });
  });
});

describe('facts of a run', () => {
  const run = {
    parameters: { '--lr': '0.1' },
    snapshot_id: 's',
    properties: { 'azureml.git.commit': 'abc', other: 'x' },
    environment: {
      datasets: { in: { files: 2, fingerprint: 'f' } },
      python: '3.11.2',
      packages: { torch: '2.1' },
      conda: [
        { name: 'blas', version: '1', build: 'h0' },
        { name: 'torch', version: '9' },
      ],
    },
    spec: {
      target: 'local',
      script: 'train.py',
      arguments: ['--lr', '0.1'],
      command: null,
      variables: { A: '1' },
      time_limit_s: 60,
      framework: 'Python',
      communicator: 'None',
      gpus: null,
      resources: { cpus: 2 },
      data_references: {},
      datasets: {
        in: { name: 'mnist', version: 3, mode: 'mount', dataset: { sources: [{ datastore: 'blobs', path: 'm/*' }] } },
      },
      outputs: {},
      max_attempts: 1,
      environment: {
        name: 'env',
        version: '2',
        kind: 'uv',
        interpreter: null,
        python_version: null,
        variables: { B: '2' },
        container: null,
      },
      distribution: { kind: 'single', node_count: 1, processes_per_node: 1, options: {} },
    },
  } as unknown as Run;

  it('has exact packages, git facts and the rest in groups', () => {
    expect(packagesOf(run)).toEqual({ torch: '2.1', blas: '1 h0' });
    expect(gitOf(run)).toEqual({ commit: 'abc' });
    const groups = Object.fromEntries(groupsOf(run).map((group) => [group.title, group.values]));
    expect(groups.Variables).toEqual({ A: '1', B: '2' });
    expect(groups.Environment).toEqual({ environment: 'env:2', kind: 'uv', python: '3.11.2' });
    expect(groups.Data).toEqual({ in: 'mnist:3 blobs/m/* (mount)', 'in.files': '2', 'in.fingerprint': 'f' });
    expect(groups.Compute?.cpus).toBe('2');
  });
});
