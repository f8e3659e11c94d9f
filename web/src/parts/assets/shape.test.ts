import { describe, expect, it } from 'vitest';
import {
  chosen,
  fits,
  kindOf,
  newestOfEach,
  nodesText,
  packagesOf,
  shownVariable,
  splitRequirement,
  stepText,
  withoutPassword,
} from './shape';
import type { ComputeTarget } from '../../api/assets';

const target = (spec: Partial<ComputeTarget['spec']>, rest: Partial<ComputeTarget> = {}): ComputeTarget =>
  ({
    name: 'gpu',
    nodes: [],
    running: [],
    waiting: [],
    ...rest,
    spec: { type: 'AmlCompute', max_nodes: 4, engine: '', backend: '', ...spec },
  }) as unknown as ComputeTarget;

describe('environments', () => {
  it('lists the packages of a definition, Python apart', () => {
    const dependencies = ['python=3.10', 'numpy', 'pythonnet', { pip: ['torch==2.1', 'joblib'] }];
    const found = packagesOf({ python: { condaDependencies: { channels: ['conda-forge'], dependencies } } });
    expect(found).toEqual({
      python: '3.10',
      channels: ['conda-forge'],
      conda: ['numpy', 'pythonnet'],
      pip: ['torch==2.1', 'joblib'],
    });
    expect(packagesOf({})).toEqual({ python: '', channels: [], conda: [], pip: [] });
  });
  it('names the interpreter of one that the user manages', () => {
    expect(
      packagesOf({
        python: { userManagedDependencies: true, interpreterPath: '/py', condaDependencies: { dependencies: ['x'] } },
      }),
    ).toMatchObject({ python: '/py', conda: [] });
  });
  it('splits requirements and hides what is secret', () => {
    expect(splitRequirement('torch[cuda]>=2,<3')).toEqual(['torch[cuda]', '>=2,<3']);
    expect(splitRequirement('joblib')).toEqual(['joblib', '']);
    expect(splitRequirement('git+https://h/x')).toEqual(['git', '+https://h/x']);
    expect(withoutPassword('--index-url https://me:pw@host/simple')).toBe('--index-url https://****@host/simple');
    expect(withoutPassword('ssh://git@host/x')).toBe('ssh://git@host/x');
    expect([shownVariable('WANDB_API_KEY', 'x'), shownVariable('MONKEY', 'x')]).toEqual(['••••••••', 'x']);
  });
});

describe('versions', () => {
  it('keeps the newest of each name and counts the rest', () => {
    const found = newestOfEach([
      { name: 'b', version: 10 },
      { name: 'b', version: 9 },
      { name: 'a', version: 1 },
    ]);
    expect(found).toEqual([
      { newest: { name: 'a', version: 1 }, count: 1 },
      { newest: { name: 'b', version: 10 }, count: 2 },
    ]);
  });
  it('takes the version of the address, else the newest, and none for an unknown one', () => {
    const versions = [{ version: 2 }, { version: 10 }, { version: 9 }];
    expect([chosen(versions, null), chosen(versions, '9'), chosen(versions, '3')]).toEqual([
      { version: 10 },
      { version: 9 },
      undefined,
    ]);
  });
  it('finds by all words', () => {
    expect([fits('net vis', 'resnet', 'team: vision'), fits('net audio', 'resnet', 'vision'), fits('', 'x')]).toEqual([
      true,
      false,
      true,
    ]);
  });
});

describe('datasets', () => {
  it('says steps in words', () => {
    expect(stepText({ do: 'take', count: 10 })).toBe('take 10');
    expect(stepText({ do: 'split', fraction: 0.25, seed: null, rest: true })).toBe('the rest after 25 %');
    expect(stepText({ do: 'keep_columns', columns: ['a', 'b'] })).toBe('keep columns ["a","b"]');
  });
});

describe('compute', () => {
  it('says what a target is', () => {
    expect(kindOf(target({}))).toBe('pool');
    expect(kindOf(target({ backend: 'slurm', engine: 'slurm:gpu' }))).toBe('pool on slurm:gpu');
    expect(kindOf(target({ type: 'Ray', backend: 'ray' }))).toBe('Ray');
    expect(kindOf(target({ type: 'VirtualMachine', backend: 'ssh' }))).toBe('SSH');
  });
  it('counts nodes that work', () => {
    const node = (run_id: string | null) => ({
      name: 'n',
      run_id,
      gpus: [],
      address: '',
      state: '',
      cpus: 0,
      gpu_count: 0,
      memory_bytes: 0,
      note: '',
    });
    expect(nodesText(target({}, { nodes: [node('r'), node(null)] }))).toBe('1 of 4 busy');
    expect(nodesText(target({ max_nodes: 0 }))).toBe('idle');
    expect(
      nodesText(target({ max_nodes: 0 }, { running: [{ run_id: 'r', node_count: 2, gpus: [], waits_for: '' }] })),
    ).toBe('2 busy');
  });
});
