// The inputs of a run as groups of names and values, for the environment tab and the compare page. Pure.
import type { Run } from '../../api/types';
import { duration } from '../../lib/format';
import { flat, type Values } from './values';

const GIT = 'azureml.git.';

/** Exact packages by name, as the run's own interpreter saw them; conda's too. */
export function packagesOf(run: Run): Values {
  const found = run.environment.packages;
  const packages: Record<string, string> = {};
  if (found && typeof found === 'object')
    for (const [name, version] of Object.entries(found)) packages[name] = String(version);
  const conda = run.environment.conda;
  if (Array.isArray(conda)) {
    for (const one of conda as { name?: unknown; version?: unknown; build?: unknown }[]) {
      const name = String(one.name ?? '');
      if (name && !Object.hasOwn(packages, name)) packages[name] = [one.version, one.build].filter(Boolean).join(' ');
    }
  }
  return packages;
}

/** Commit, branch, repository and whether the tree was dirty. */
export function gitOf(run: Run): Values {
  const found: Record<string, string> = {};
  for (const [key, value] of Object.entries(run.properties))
    if (key.startsWith(GIT)) found[key.slice(GIT.length)] = String(value);
  return found;
}

/** The variables that the run was given; what is secret was hidden by the server. */
export const variablesOf = (run: Run): Values => ({ ...run.spec.environment.variables, ...run.spec.variables });

/** The interpreter and what was asked for. */
export function environmentOf(run: Run): Values {
  const { environment } = run.spec;
  const used = (key: string): unknown => run.environment[key];
  return flat({
    environment: environment.version ? `${environment.name}:${environment.version}` : environment.name,
    kind: environment.kind,
    python: used('python') ?? environment.python_version,
    interpreter: used('interpreter') ?? environment.interpreter,
    platform: used('platform'),
    image: imageOf(used('image')) || environment.container?.image,
  });
}

function imageOf(image: unknown): string {
  if (!image || typeof image !== 'object') return image ? String(image) : '';
  return Object.values(image).map(String).join(' ');
}

/** Where and how it ran. */
export function computeOf(run: Run): Values {
  const { spec } = run;
  return flat({
    target: spec.target,
    nodes: spec.distribution.node_count,
    'processes per node': spec.distribution.processes_per_node,
    distribution: spec.distribution.kind,
    ...spec.distribution.options,
    'GPUs per node': spec.gpus,
    framework: spec.framework,
    communicator: spec.communicator === 'None' ? '' : spec.communicator,
    'time limit': duration(spec.time_limit_s * 1000),
    attempts: spec.max_attempts > 1 ? spec.max_attempts : '',
    ...spec.resources,
  });
}

interface DatasetInput {
  name?: string;
  version?: number;
  mode?: string;
  dataset?: { sources?: { datastore?: string; path?: string; url?: string }[]; steps?: unknown[] };
}

/** Datasets, data references and outputs, by the names that the script knows; with the fingerprint of what was read. */
export function dataOf(run: Run): Values {
  const found: Record<string, string> = {};
  const read = (run.environment.datasets ?? {}) as Record<string, unknown>;
  for (const [name, input] of Object.entries(run.spec.datasets as Record<string, DatasetInput>)) {
    const sources = (input.dataset?.sources ?? []).map((one) => one.url || `${one.datastore ?? ''}/${one.path ?? ''}`);
    const steps = input.dataset?.steps?.length ? JSON.stringify(input.dataset.steps) : '';
    found[name] = [
      input.name ? `${input.name}:${input.version ?? 0}` : '',
      ...sources,
      steps,
      input.mode ? `(${input.mode})` : '',
    ]
      .filter(Boolean)
      .join(' ');
    Object.assign(found, flat(read[name], name));
  }
  return { ...found, ...flat(run.spec.data_references), ...flat(run.spec.outputs) };
}

/** The command: script, arguments. */
export function commandOf(run: Run): Values {
  return flat({ script: run.spec.script, command: run.spec.command, arguments: run.spec.arguments });
}

export interface Group {
  title: string;
  values: Values;
}

/** All groups of a run, in the order in which they are shown. */
export function groupsOf(run: Run): Group[] {
  return [
    { title: 'Parameters', values: run.parameters },
    { title: 'Command', values: commandOf(run) },
    { title: 'Environment', values: environmentOf(run) },
    { title: 'Packages', values: packagesOf(run) },
    { title: 'Variables', values: variablesOf(run) },
    { title: 'Compute', values: computeOf(run) },
    { title: 'Data', values: dataOf(run) },
    { title: 'Code', values: run.snapshot_id ? { snapshot: run.snapshot_id } : {} },
    { title: 'Git', values: gitOf(run) },
  ];
}
