// Texts from a run's record for the page. Pure.
import type { Run, RunFile } from '../../api/types';
import { bytes } from '../../lib/format';

const LAST_LINES = '\n\nLast lines of'; // where an error's message begins to quote the log

export interface Consequence {
  rank: number;
  node: string;
  why: string;
  log: string;
}

export interface Evidence {
  file: string;
  line: number | null;
  text: string;
}

export interface Diagnosis {
  code: string;
  /** The message without the quoted log. */
  message: string;
  rank: number | null;
  role: string;
  node: string;
  address: string;
  exit: string;
  /** The last line of the traceback: `ValueError: bad`. */
  exception: string;
  log: string;
  lines: string[];
  evidence: Evidence[];
  consequences: Consequence[];
  hint: string;
}

export function diagnosisOf(run: Run): Diagnosis | null {
  if (!run.error) return null;
  const details = record(run.error.details);
  const code = details.exit_code;
  const signal = text(details.signal);
  const rank = details.rank;
  return {
    code: text(run.error.code),
    message: (text(run.error.message) || 'The run failed and left no message.').split(LAST_LINES)[0]!.trim(),
    rank: typeof rank === 'number' ? rank : null,
    role: text(details.role),
    node: text(details.node) || list(details.nodes).map(text).join(', '),
    address: text(details.address),
    exit: signal ? `killed by ${signal}` : typeof code === 'number' ? `exit code ${code}` : '',
    exception: exceptionOf(details.exception),
    log: text(details.log),
    lines: list(details.last_lines).map(text),
    evidence: list(details.evidence)
      .map(record)
      .map((one) => ({
        file: text(one.file),
        line: typeof one.line === 'number' ? one.line : null,
        text: text(one.text).trim(),
      })),
    consequences: list(details.consequences)
      .map(record)
      .map((one) => ({
        rank: Number(one.rank),
        node: text(one.node),
        why: text(one.why),
        log: text(one.log),
      })),
    hint: text(details.hint),
  };
}

/** Where the log shows the failure: the first evidence in its own log. */
export function failedLine(found: Diagnosis): number | null {
  return found.evidence.find((one) => one.file === found.log && one.line !== null)?.line ?? null;
}

export function commandOf(run: Run): string {
  if (run.spec.command) return run.spec.command;
  return [run.spec.script ?? '', ...run.spec.arguments.map(quoted)].filter(Boolean).join(' ');
}

const quoted = (word: string): string =>
  /^[\w@%+=:,./${}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;

/** `2 nodes × 4 processes`; "" for one process. */
export function distributionOf(run: Run): string {
  const { kind, node_count: nodes, processes_per_node: processes } = run.spec.distribution;
  if (nodes * processes === 1 && kind === 'single') return '';
  const parts = [nodes > 1 ? `${nodes} nodes` : '1 node', processes > 1 ? `${processes} processes` : '1 process'];
  return `${parts.join(' × ')}, ${kind}`;
}

/** `4 CPUs, 16 GB, partition gpu`: the resources requested for each node. */
export function resourcesOf(run: Run): string {
  const given = record(run.spec.resources);
  const named = [...Object.entries(record(given.custom)), ...Object.entries(record(given.engine))];
  return [
    given.cpus ? `${text(given.cpus)} CPUs` : '',
    typeof given.memory_bytes === 'number' ? bytes(given.memory_bytes) : '',
    ...named
      .filter(([, value]) => value !== null && value !== '' && !(Array.isArray(value) && !value.length))
      .map(([name, value]) => `${name} ${text(value)}`),
  ]
    .filter(Boolean)
    .join(', ');
}

export interface GitFacts {
  commit: string;
  branch: string;
  repository: string;
  isDirty: boolean;
  /** Address of the commit, where the remote is on the web. */
  href: string | null;
}

export function gitOf(run: Run): GitFacts | null {
  const given = run.properties;
  const commit = given['azureml.git.commit'] ?? given['mlflow.source.git.commit'] ?? '';
  const repository = given['azureml.git.repository_uri'] ?? given['mlflow.source.git.repoURL'] ?? '';
  if (!commit && !repository) return null;
  return {
    commit,
    branch: given['azureml.git.branch'] ?? given['mlflow.source.git.branch'] ?? '',
    repository,
    isDirty: /^true$/i.test(given['azureml.git.dirty'] ?? ''),
    href: webAddress(repository, commit),
  };
}

/** The commit's page; only http and https are ever followed, and nothing that holds a password. */
export function webAddress(remote: string, commit: string): string | null {
  const ssh = /^(?:ssh:\/\/)?git@([\w.-]+)[:/](?!\/)([\w./~-]+)$/.exec(remote);
  let url: URL;
  try {
    url = new URL(ssh ? `https://${ssh[1]}/${ssh[2]}` : remote);
  } catch {
    return null;
  }
  if ((url.protocol !== 'https:' && url.protocol !== 'http:') || url.password) return null;
  const path = url.pathname.replace(/\/$/, '').replace(/\.git$/, '');
  return `${url.protocol}//${url.host}${path}${/^[0-9a-f]{7,64}$/.test(commit) ? `/commit/${commit}` : ''}`;
}

/** The log that shows most of a run: its own output, before those of helpers. */
export function mainLog(files: readonly RunFile[]): RunFile | null {
  const logs = files.filter((file) => file.kind === 'stream' && !file.name.startsWith('attempt_'));
  const order = [
    /^user_logs\/std_log\.txt$/,
    /driver_log\.txt$/,
    /^user_logs\/std_log_(process_)?0+\.txt$/,
    /^user_logs\//,
    /./,
  ];
  for (const pattern of order) {
    const found = logs.filter((file) => pattern.test(file.name)).sort((a, b) => a.name.localeCompare(b.name))[0];
    if (found) return found;
  }
  return null;
}

// Colours, cursor moves, titles: a preview has none of them.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b]*(?:\u0007|\u001b\\)|[@-Z\\-_])/g;

/** Lines as a terminal would show them at last: without colours, progress bars in their last state. */
export function plainLines(given: string): string[] {
  const lines = given.replace(ESCAPES, '').replace(/\r\n/g, '\n').split('\n');
  return lines
    .map((line) => line.split('\r').filter(Boolean).at(-1) ?? '')
    .map((line) => line.replace(/[\u0000-\u0008\u000b-\u001f\u007f]/g, '\ufffd'));
}

/** Properties that people set, before those that the system did. */
export function ownProperties(run: Run): [string, string][] {
  const isSystem = (key: string): boolean =>
    /^(azureml|mlflow|_azureml|runyard)\./.test(key) || key === 'ContentSnapshotId';
  return Object.entries(run.properties).sort(
    ([a], [b]) => Number(isSystem(a)) - Number(isSystem(b)) || a.localeCompare(b),
  );
}

// Tags that Azure's sweeps set for code that reads them; the sweep page shows the same facts better.
const SWEEP_TAG =
  /^(_aml_system_|HD_[0-9a-f-]{36}|(generator|primary_metric|policy|platform)_config$|max_(total_jobs|concurrent_jobs|duration_minutes)$)/;

/** Tags of people, and those that the system set. */
export function tagsOf(run: Run): { own: [string, string | null][]; system: [string, string | null][] } {
  const isSystem = (name: string): boolean =>
    name.startsWith('_aml_system_') || (run.spec.sweep !== null && SWEEP_TAG.test(name));
  const all = Object.entries(run.tags);
  return { own: all.filter(([name]) => !isSystem(name)), system: all.filter(([name]) => isSystem(name)) };
}

export function exceptionOf(value: unknown): string {
  if (typeof value === 'string') return value.trim().split('\n').at(-1) ?? '';
  const found = record(value);
  const kind = text(found.type) || text(found.name);
  const message = text(found.message) || text(found.text);
  return kind && message ? `${kind}: ${message}` : kind || message;
}

export const text = (value: unknown): string =>
  typeof value === 'string' ? value : value === null || value === undefined ? '' : String(value);
export const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
export const record = (value: unknown): Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
