// Records of assets as the pages show them. Pure.
import type { ComputeTarget, DataSource, Definition, DatasetSpec } from '../../api/assets';

export interface Packages {
  python: string;
  channels: string[];
  conda: string[];
  pip: string[];
}

/** The packages that an environment names; Python itself apart. */
export function packagesOf(definition: Definition): Packages {
  const found: Packages = { python: '', channels: [], conda: [], pip: [] };
  const given = definition.python?.condaDependencies;
  if (definition.python?.userManagedDependencies) return { ...found, python: definition.python.interpreterPath ?? '' };
  found.channels = [...(given?.channels ?? [])];
  for (const one of given?.dependencies ?? []) {
    if (typeof one !== 'string') found.pip.push(...(one?.pip ?? []));
    else if (/^python\b/.test(one)) found.python = one.replace(/^python\s*=*\s*/, '');
    else found.conda.push(one);
  }
  return found;
}

/** `scikit-learn==1.3`, `joblib >= 1` … as [name, version constraint]. */
export function splitRequirement(line: string): [string, string] {
  const match = /^([A-Za-z0-9._-]+(?:\[[^\]]*\])?)\s*(.*)$/.exec(line);
  return match ? [match[1]!, match[2]!] : [line, ''];
}

/** Hide user names and passwords in addresses. */
export const withoutPassword = (text: string): string => text.replace(/(\w+:\/\/)(?!git@)[^/\s@]+@/g, '$1****@');

const SECRET = /(?:_|^)(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|PWD|CREDENTIALS?)$/i;
export const shownVariable = (name: string, value: string): string => (SECRET.test(name) ? '••••••••' : value);

/** The newest of each name with how many there are, by name. */
export function newestOfEach<T extends { name: string; version: number }>(
  versions: readonly T[],
): { newest: T; count: number }[] {
  const found = new Map<string, { newest: T; count: number }>();
  for (const one of versions) {
    const known = found.get(one.name);
    found.set(one.name, {
      newest: known && known.newest.version > one.version ? known.newest : one,
      count: (known?.count ?? 0) + 1,
    });
  }
  return [...found.values()].sort((a, b) => a.newest.name.localeCompare(b.newest.name));
}

/** Whether every word of `text` is in one of the values. */
export function fits(text: string, ...values: readonly (string | null | undefined)[]): boolean {
  const all = values.join('\n').toLowerCase();
  return text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => all.includes(word));
}

export const sourceText = (source: DataSource): string => source.url || `${source.datastore}/${source.path}`;
export const isPattern = (source: DataSource): boolean => /[*?]/.test(source.path);

/** A step of a dataset's definition, in words. */
export function stepText(step: DatasetSpec['steps'][number]): string {
  const { do: name = '', ...rest } = step;
  const percent = (part: unknown): string => `${Math.round(Number(part) * 1000) / 10} %`;
  if (name === 'take' || name === 'skip') return `${name} ${String(rest.count)}`;
  if (name === 'sample') return `a sample of ${percent(rest.fraction)}`;
  if (name === 'split') return `${rest.rest ? 'the rest after' : 'a part of'} ${percent(rest.fraction)}`;
  const values = Object.values(rest)
    .filter((value) => value !== null)
    .map((value) => (typeof value === 'string' ? value : JSON.stringify(value)));
  return [name.replaceAll('_', ' '), ...values].join(' ');
}

const KINDS: Record<string, string> = {
  Local: 'machine',
  VirtualMachine: 'SSH',
  AmlCompute: 'pool',
  AKS: 'pool',
  BatchAI: 'pool',
  ComputeInstance: 'instance',
};

export function kindOf({ spec, name }: Pick<ComputeTarget, 'spec' | 'name'>): string {
  const kind = KINDS[spec.type] ?? spec.type;
  const where = spec.engine && spec.engine !== name ? spec.engine : spec.backend;
  return where && kind === 'pool' ? `pool on ${where}` : kind;
}

/** How many nodes are busy, of how many: `2 of 4 busy`. A `max_nodes` of 0 means no limit. */
export function nodesText(target: ComputeTarget): string {
  const { spec, nodes, running } = target;
  const busy = nodes.filter((node) => node.run_id).length || running.reduce((sum, run) => sum + run.node_count, 0);
  const most = spec.max_nodes || nodes.length;
  return most ? `${busy} of ${most} busy` : busy ? `${busy} busy` : 'idle';
}

/** The order in which people look for versions: the newest first. */
export const newestFirst = <T extends { version: number }>(versions: readonly T[]): T[] =>
  [...versions].sort((a, b) => b.version - a.version);

/** The version that the address names, else the newest. */
export function chosen<T extends { version: number }>(versions: readonly T[], wanted: string | null): T | undefined {
  return versions.find((one) => String(one.version) === wanted) ?? (wanted ? undefined : newestFirst(versions)[0]);
}
