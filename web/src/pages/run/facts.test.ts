import { describe, expect, it } from 'vitest';
import type { Run, RunFile } from '../../api/types';
import {
  commandOf,
  diagnosisOf,
  distributionOf,
  failedLine,
  gitOf,
  mainLog,
  ownProperties,
  plainLines,
  resourcesOf,
  tagsOf,
  webAddress,
} from './facts';

const run = (values: object): Run => ({ properties: {}, error: null, ...values }) as Run;
const spec = (values: object): Run => run({ spec: { script: 'train.py', arguments: [], command: null, ...values } });

describe('diagnosisOf', () => {
  const error = {
    code: 'UserError',
    message:
      'User program failed with ValueError: bad\nRank 1 of 2 failed first.\n\nLast lines of user_logs/x.txt:\na\nb',
    details: {
      rank: 1,
      node: 'n1',
      address: '10.0.0.1',
      exit_code: 1,
      signal: null,
      log: 'user_logs/x.txt',
      last_lines: ['a', 'b'],
      exception: { type: 'ValueError', message: 'bad', traceback: '…' },
      evidence: [
        { file: 'other', line: 3, text: 'x' },
        { file: 'user_logs/x.txt', line: 12, text: ' ValueError: bad ' },
      ],
      consequences: [{ rank: 0, node: 'n0', why: 'stopped after the first failure', log: 'user_logs/y.txt' }],
    },
  };

  it('takes the message without the quoted log, and who failed first', () => {
    const found = diagnosisOf(run({ error }))!;
    expect(found.message).toBe('User program failed with ValueError: bad\nRank 1 of 2 failed first.');
    expect([found.rank, found.node, found.exit, found.exception]).toEqual([1, 'n1', 'exit code 1', 'ValueError: bad']);
    expect(found.lines).toEqual(['a', 'b']);
    expect(failedLine(found)).toBe(12);
    expect(found.consequences).toEqual([
      { rank: 0, node: 'n0', why: 'stopped after the first failure', log: 'user_logs/y.txt' },
    ]);
  });

  it('takes whatever an error holds', () => {
    expect(diagnosisOf(run({}))).toBeNull();
    const odd = diagnosisOf(
      run({
        error: {
          details: { rank: 'x', last_lines: 5, evidence: [null], exception: 3, nodes: ['a', 'b'], signal: 'SIGKILL' },
        },
      }),
    )!;
    expect([odd.rank, odd.lines, odd.evidence.length, odd.exception, odd.node, odd.exit]).toEqual([
      null,
      [],
      1,
      '',
      'a, b',
      'killed by SIGKILL',
    ]);
    expect(odd.message).toBe('The run failed and left no message.');
  });
});

describe('commands', () => {
  it('quotes arguments as a shell would need them', () => {
    expect(commandOf(spec({ arguments: ['--n', '3', 'a b', "it's"] }))).toBe(`train.py --n 3 'a b' 'it'\\''s'`);
    expect(commandOf(spec({ command: 'make && run' }))).toBe('make && run');
  });

  it('names nodes and processes only where there are several', () => {
    const of = (node_count: number, processes_per_node: number, kind: string): string =>
      distributionOf(spec({ distribution: { kind, node_count, processes_per_node } }));
    expect([of(1, 1, 'single'), of(2, 4, 'pytorch'), of(1, 2, 'mpi')]).toEqual([
      '',
      '2 nodes × 4 processes, pytorch',
      '1 node × 2 processes, mpi',
    ]);
  });
});

it('says what a node was asked to have', () => {
  const of = (resources: unknown): string => resourcesOf(spec({ resources }));
  expect(of({ cpus: 4, memory_bytes: 16e9, custom: { tpu: 1 }, engine: { partition: 'gpu', extra: [] } })).toBe(
    '4 CPUs, 16.0 GB, tpu 1, partition gpu',
  );
  expect([of({ cpus: null, memory_bytes: null, custom: {}, engine: {} }), of(undefined)]).toEqual(['', '']);
});

describe('webAddress', () => {
  const commit = 'a'.repeat(40);
  it.each([
    ['https://example.com/me/it.git', `https://example.com/me/it/commit/${commit}`],
    ['git@example.com:me/it.git', `https://example.com/me/it/commit/${commit}`],
    ['ssh://git@example.com/me/it', `https://example.com/me/it/commit/${commit}`],
    ['javascript:alert(1)', null],
    ['data:text/html,x', null],
    ['https://me:secret@example.com/it', null],
    ['/srv/it.git', null],
  ])('%s', (remote, expected) => expect(webAddress(remote, commit)).toBe(expected));

  it('leaves out what is no commit', () =>
    expect(webAddress('https://example.com/it', '../../x')).toBe('https://example.com/it'));

  it('is in the facts of git', () => {
    expect(gitOf(run({}))).toBeNull();
    expect(
      gitOf(
        run({
          properties: { 'azureml.git.commit': 'abc1234', 'azureml.git.dirty': 'True', 'azureml.git.branch': 'main' },
        }),
      ),
    ).toEqual({
      commit: 'abc1234',
      branch: 'main',
      repository: '',
      isDirty: true,
      href: null,
    });
  });
});

describe('logs', () => {
  it('finds the one to show', () => {
    const file = (name: string, kind = 'stream'): RunFile => ({ name, kind }) as RunFile;
    expect(
      mainLog([
        file('azureml-logs/20_image.txt'),
        file('user_logs/std_log.txt'),
        file('attempt_1/user_logs/std_log.txt'),
      ])?.name,
    ).toBe('user_logs/std_log.txt');
    expect(mainLog([file('user_logs/std_log_process_01.txt'), file('user_logs/std_log_process_00.txt')])?.name).toBe(
      'user_logs/std_log_process_00.txt',
    );
    expect(mainLog([file('outputs/x.txt', 'blob')])).toBeNull();
  });

  it('shows lines as a terminal would at last', () => {
    expect(plainLines('\u001b[31mred\u001b[0m\r\n 10%\r 20%\r\nbell\u0007')).toEqual(['red', ' 20%', 'bell\ufffd']);
  });
});

it('tells tags of people from those of a sweep', () => {
  const tags = { mine: '1', max_total_jobs: '4', _aml_system_x: 'y', [`HD_${'a'.repeat(36)}_0`]: '{}' };
  expect(tagsOf(run({ tags, spec: { sweep: {} } })).own).toEqual([['mine', '1']]);
  expect(tagsOf(run({ tags, spec: { sweep: null } })).system).toEqual([['_aml_system_x', 'y']]);
});

it('puts properties that people set first', () => {
  expect(
    ownProperties(run({ properties: { 'azureml.git.branch': 'x', mine: '1', ContentSnapshotId: 'y' } })).map(
      ([key]) => key,
    ),
  ).toEqual(['mine', 'azureml.git.branch', 'ContentSnapshotId']);
});
