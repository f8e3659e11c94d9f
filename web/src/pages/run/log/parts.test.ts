import { expect, test } from 'vitest';
import type { Run, RunFile } from '../../../api/types';
import { firstLog, groupsOf } from './files';
import { marked, matches } from './matches';
import { clamp, lastTop, MOST_SPACE, ROW, scrollOf, spaceOf, topOf, windowOf } from './scroll';

test.each([
  [
    'Loss loss',
    { text: 'loss', case: false, word: false },
    [
      [0, 4],
      [5, 9],
    ],
  ],
  ['Loss loss', { text: 'loss', case: true, word: false }, [[5, 9]]],
  ['loss_1 loss floss', { text: 'loss', case: false, word: true }, [[7, 11]]],
  [
    'aaaa',
    { text: 'aa', case: true, word: false },
    [
      [0, 2],
      [2, 4],
    ],
  ],
  ['a.b', { text: '.', case: true, word: true }, [[1, 2]]],
  ['a', { text: '', case: true, word: false }, []],
] as const)('matches in %s', (text, wanted, expected) => {
  expect(matches(text, wanted)).toEqual(expected);
});

test('matches are marked across colours', () => {
  const found = marked(
    [
      { text: 'xne', class: 'log-f-1' },
      { text: 'edle needle', class: '' },
    ],
    { text: 'needle', case: true, word: false },
  );
  expect(found.map((piece) => [piece.text, piece.class, piece.isMatch])).toEqual([
    ['x', 'log-f-1', false],
    ['ne', 'log-f-1', true],
    ['edle', '', true],
    [' ', '', false],
    ['needle', '', true],
  ]);
});

test.each([10, 5_000, 400_000, 12_000_000, 900_000_000])(
  'a log of %d lines scrolls from its first to its last line',
  (total) => {
    const frame = { total, height: 760 };
    expect(spaceOf(frame)).toBeLessThanOrEqual(MOST_SPACE);
    expect(topOf(0, frame)).toBe(0);
    expect(topOf(spaceOf(frame) - frame.height, frame)).toBeCloseTo(lastTop(frame), 3);
    expect(windowOf(lastTop(frame), frame).last).toBe(total);
    expect(windowOf(0, frame).first).toBe(1);
    for (const part of [0.1, 0.5, 0.99]) {
      const top = lastTop(frame) * part;
      expect(Math.abs(topOf(scrollOf(top, frame), frame) - top)).toBeLessThan(0.001 * Math.max(1, total / 1e6));
    }
    expect(clamp(total * 2, frame)).toBe(lastTop(frame));
    expect(windowOf(3.5, { total: 1000, height: 2 * ROW })).toEqual({ first: 4, last: 7 });
  },
);

const file = (name: string, size = 10, kind: 'blob' | 'stream' = 'stream'): RunFile => ({
  name,
  size,
  kind,
  sha256: null,
  updated_at: null,
  complete: true,
});
const run = (log?: string): Run => ({ error: log ? { details: { log } } : null }) as unknown as Run;

test('logs are grouped, in the order of their ranks, with the failed one first to be shown', () => {
  const files = [
    file('azureml-logs/20_image_build_log.txt'),
    file('outputs/model.pkl', 9, 'blob'),
    file('outputs/note.txt', 9, 'blob'),
    file('system_logs/supervisor.log'),
    file('user_logs/std_log_process_10.txt'),
    file('user_logs/std_log_process_02.txt', 0),
    file('azureml-logs/hyperdrive.txt'),
  ];
  const groups = groupsOf(files, run('user_logs/std_log_process_10.txt'));
  expect(groups.map((group) => [group.title, group.files.map((one) => one.label)])).toEqual([
    [
      'Program',
      [
        'hyperdrive.txt (10 B)',
        'rank 2 · std_log_process_02.txt (0 B)',
        '✗ rank 10 · std_log_process_10.txt (10 B)',
      ].map((label) => label.replace(/^hyper/, 'azureml-logs/hyper')),
    ],
    ['Building the environment', ['azureml-logs/20_image_build_log.txt (10 B)']],
    ['System', ['system_logs/supervisor.log (10 B)']],
    ['Other text files', ['outputs/note.txt (9 B)']],
  ]);
  expect(firstLog(groups, run('user_logs/std_log_process_10.txt'))).toBe('user_logs/std_log_process_10.txt');
  expect(
    firstLog(groupsOf([file('user_logs/std_log.txt', 0), file('azureml-logs/20_image_build_log.txt')], run()), run()),
  ).toBe('azureml-logs/20_image_build_log.txt');
  expect(firstLog(groupsOf([file('outputs/note.txt', 9, 'blob')], run()), run())).toBeUndefined();
});
