import { describe, expect, it } from 'vitest';
import type { Run } from '../../api/types';
import { bestOf, codeLines, goalOf, linesOf, otherArguments, sectionsOf, textOf, type Section } from './differences';

type Changes = { [key in keyof Run]?: unknown } & { spec?: object };

function run(id: string, changes: Changes = {}): Run {
  const spec = {
    target: 'local',
    script: 'train.py',
    arguments: ['--lr', '0.1'],
    command: null,
    environment: {
      name: 'env',
      version: '1',
      kind: 'uv',
      interpreter: null,
      python_version: '3.10',
      variables: { A: '1' },
      container: null,
    },
    distribution: { kind: 'single', node_count: 1, processes_per_node: 1, options: {} },
    variables: { SEED: '1' },
    time_limit_s: 60,
    framework: 'Python',
    communicator: 'None',
    gpus: null,
    data_references: {},
    datasets: {},
    outputs: {},
    resources: { cpus: null, custom: {} },
    max_attempts: 1,
  };
  const plain = {
    id,
    tags: {},
    properties: { 'azureml.git.commit': 'abc', 'mlflow.source.git.commit': 'abc', ContentSnapshotId: id },
    parameters: { lr: '0.1' },
    environment: { python: '3.10.1', packages: { numpy: '1.0', torch: '2.0' } },
  };
  return { ...plain, ...changes, spec: { ...spec, ...changes.spec } } as unknown as Run;
}

/** `section: name` of all lines that differ. */
const differing = (sections: Section[]): string[] =>
  sections.flatMap((section) =>
    section.lines.filter((line) => line.differs).map((line) => `${section.id}: ${line.name}`),
  );

describe('sections', () => {
  it('finds no difference between equal runs', () => {
    expect(differing(sectionsOf([run('a'), run('b'), run('c')]))).toEqual([]);
  });

  it.each<[string, Changes, string[]]>([
    ['a parameter', { parameters: { lr: '0.2' } }, ['parameters: lr']],
    ['a parameter more', { parameters: { lr: '0.1', new: 'x' } }, ['parameters: new']],
    ['an argument without a name', { spec: { arguments: ['--lr', '0.1', 'data'] } }, ['parameters: (other arguments)']],
    ['a tag without a value', { tags: { best: null } }, ['tags: best']],
    [
      'the nodes',
      { spec: { distribution: { kind: 'mpi', node_count: 2, processes_per_node: 1, options: {} } } },
      ['target: nodes', 'target: distribution'],
    ],
    ['a resource', { spec: { resources: { cpus: 4, custom: {} } } }, ['target: cpus']],
    ['a variable', { spec: { variables: { SEED: '2' } } }, ['variables: SEED']],
    ['a package', { environment: { python: '3.10.1', packages: { numpy: '1.0', torch: '2.1' } } }, ['packages: torch']],
    ['Python', { environment: { python: '3.11', packages: { numpy: '1.0', torch: '2.0' } } }, ['environment: python']],
    ['data', { spec: { datasets: { train: { name: 'mnist', version: 2, dataset: {} } } } }, ['data: train']],
    ['the commit', { properties: { 'azureml.git.commit': 'def', 'mlflow.source.git.commit': 'def' } }, ['git: commit']],
    ['a property', { properties: { 'azureml.git.commit': 'abc', mine: '1' } }, ['properties: mine']],
  ])('finds %s', (_, changes, expected) =>
    expect(differing(sectionsOf([run('a'), run('b', changes)]))).toEqual(expected),
  );

  it('takes no packages that a run has not told yet for a difference', () => {
    expect(differing(sectionsOf([run('a'), run('b', { environment: { python: '3.10.1' } })]))).toEqual([]);
  });

  it('leaves out what the values of a sweep are written twice in', () => {
    expect(
      differing(
        sectionsOf([run('a', { tags: { hyperparameters: '{"lr": 1}' } }), run('b', { tags: { _aml_system_x: '1' } })]),
      ),
    ).toEqual([]);
  });

  it('marks the best of the results', () => {
    const results = sectionsOf([run('a'), run('b'), run('c')], {
      loss: { a: [0.5, 0.1, 1, 3], b: [0.25, 0.25, 1, 3] },
      steps: { a: [3, 1, 3, 3], b: [3, 1, 3, 3], c: [3, 1, 3, 3] },
      odd: { a: ['NaN', null, null, 1], b: [2, 2, 2, 1], c: [2, 2, 2, 1] },
    }).at(-1)!;
    expect(results.lines).toEqual([
      { name: 'loss', cells: ['0.5', '0.25', null], differs: true, best: [1] },
      { name: 'steps', cells: ['3', '3', '3'], differs: false },
      { name: 'odd', cells: ['NaN', '2', '2'], differs: true },
    ]);
  });
});

it('keeps the order in which names first appear', () => {
  expect(linesOf([{ b: '1' }, { a: '1', b: '1' }, undefined])).toEqual([
    { name: 'b', cells: ['1', '1', undefined], differs: false },
    { name: 'a', cells: [null, '1', undefined], differs: true },
  ]);
});

it('takes no property of every object for a value', () => {
  expect(linesOf([{ constructor: 'x' }, {}])).toEqual([{ name: 'constructor', cells: ['x', null], differs: true }]);
});

it('writes the same object the same way', () => {
  expect(textOf({ b: [{ d: 1, c: 2 }], a: null })).toBe('{"a":null,"b":[{"c":2,"d":1}]}');
  expect(textOf('text')).toBe('text');
  expect(textOf(undefined)).toBeNull();
});

it('reads arguments as the server does', () => {
  expect(otherArguments(['a', '--lr', '0.1', 'b', '--flag', '--x=1', 'c', '--', '--last'])).toEqual([
    'a',
    'b',
    'c',
    '--',
  ]);
});

it.each([
  ['loss', 'low'],
  ['val/rmse', 'low'],
  ['train_time', 'low'],
  ['accuracy', 'high'],
  ['val_f1', 'high'],
  ['steps', null],
  ['lr', null],
  ['errors/accuracy', 'high'],
  ['loss/train', 'low'],
])('knows what is good for %s', (name, goal) => expect(goalOf(name)).toBe(goal));

it('marks all that have the best value, and none when all have', () => {
  expect(bestOf([3, null, 1, 1], 'low')).toEqual([2, 3]);
  expect(bestOf([3, null, 1, 1], 'high')).toEqual([0]);
  expect(bestOf([1, 1], 'low')).toEqual([]);
  expect(bestOf([1, 2], null)).toEqual([]);
});

it('lists the files of code that are not the same everywhere', () => {
  const files = (...paths: string[]) => paths.map((path) => ({ path }));
  const diff = { added: files('new.py'), removed: files('old.py'), changed: files('train.py'), more: false };
  expect(codeLines(['same', diff, { ...diff, added: [], removed: [] }, undefined])).toEqual([
    { path: 'new.py', changes: ['same', 'added', 'same', 'unknown'] },
    { path: 'old.py', changes: ['same', 'removed', 'same', 'unknown'] },
    { path: 'train.py', changes: ['same', 'changed', 'changed', 'unknown'] },
  ]);
});
