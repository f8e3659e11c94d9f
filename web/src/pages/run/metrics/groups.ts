// Which metrics there are and how each is shown. Pure.
import type { MetricInfo, Run } from '../../../api/types';
import type { Line } from '../../../parts/chart';

export type Shape = 'chart' | 'value' | 'text' | 'table' | 'file';

export interface Group {
  /** "" for metrics without a `/` in their name. */
  name: string;
  items: readonly MetricInfo[];
}

/** One chart of system metrics: several lines with one unit. */
export interface SystemChart {
  title: string;
  unit: string;
  range?: readonly [number, number];
  metrics: readonly { info: MetricInfo; label: string }[];
}

const SYSTEM = '_system/';
export const MOST_LINES = 50;
const ODD: ReadonlySet<unknown> = new Set(['NaN', 'Infinity', '-Infinity']);

/** Numbers that came more than once are a chart; words are a list. */
export function shapeOf(info: MetricInfo): Shape {
  if (info.kind === 'artifact') return 'file';
  if (info.kind === 'table') return 'table';
  const isNumber = typeof info.last !== 'string' || ODD.has(info.last);
  if (info.count <= 1 && info.ranks.length <= 1) return 'value';
  return isNumber && info.last !== null && typeof info.last !== 'object' ? 'chart' : 'text';
}

/** Those that hold all words of `search`, by the part of their name before the first `/`; in the order of logging. */
export function groupsOf(infos: readonly MetricInfo[], search: string): Group[] {
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Map<string, MetricInfo[]>();
  for (const info of infos) {
    const lower = info.name.toLowerCase();
    if (!words.every((word) => lower.includes(word))) continue;
    const cut = info.name.indexOf('/');
    const name = cut > 0 && cut < info.name.length - 1 ? info.name.slice(0, cut) : '';
    const items = found.get(name);
    if (items) items.push(info);
    else found.set(name, [info]);
  }
  return [...found].map(([name, items]) => ({ name, items }));
}

/** The name without its group. */
export const shortName = (info: MetricInfo, group: string): string =>
  group && info.name.startsWith(`${group}/`) ? info.name.slice(group.length + 1) : info.name;

/** A line per rank where there are several. */
export function linesOf(run: Run, info: MetricInfo): Line[] {
  const start = startOf(run);
  if (info.ranks.length <= 1) return [{ run: run.id, metric: info.name, label: info.name, color: 0, start }];
  return info.ranks
    .slice(0, MOST_LINES)
    .map((rank, index) => ({ run: run.id, metric: info.name, rank, label: `rank ${rank}`, color: index, start }));
}

export const startOf = (run: Run): number => Date.parse(run.started_at ?? run.created_at);

const CHARTS: readonly {
  pattern: RegExp;
  title: string;
  unit: string;
  label: (match: RegExpExecArray) => string;
  range?: readonly [number, number];
}[] = [
  { pattern: /^cpu_percent$/, title: 'CPU', unit: ' %', label: () => 'CPU' },
  { pattern: /^memory_mb$/, title: 'Memory', unit: ' MB', label: () => 'Memory' },
  { pattern: /^gpu_(\d+)_percent$/, title: 'GPU', unit: ' %', label: (match) => `GPU ${match[1]}`, range: [0, 100] },
  { pattern: /^gpu_(\d+)_memory_mb$/, title: 'GPU memory', unit: ' MB', label: (match) => `GPU ${match[1]}` },
  { pattern: /^disk_(read|write)_mb_s$/, title: 'Disk', unit: ' MB/s', label: (match) => match[1]! },
  { pattern: /^net_(received|sent)_mb_s$/, title: 'Network', unit: ' MB/s', label: (match) => match[1]! },
];

/** System metrics in few charts: all GPUs in one, read and write in one. An unknown metric has a chart of its own. */
export function systemCharts(infos: readonly MetricInfo[]): SystemChart[] {
  const found: SystemChart[] = CHARTS.flatMap(({ pattern, title, unit, label, range }) => {
    const metrics = infos.flatMap((info) => {
      const match = pattern.exec(info.name.replace(SYSTEM, ''));
      return match ? [{ info, label: label(match) }] : [];
    });
    return metrics.length ? [{ title, unit, metrics, ...(range ? { range } : {}) }] : [];
  });
  const known = new Set(found.flatMap((chart) => chart.metrics.map((one) => one.info.name)));
  const rest = infos
    .filter((info) => !known.has(info.name))
    .map((info) => ({
      title: info.name.replace(SYSTEM, ''),
      unit: '',
      metrics: [{ info, label: info.name.replace(SYSTEM, '') }],
    }));
  return [...found, ...rest];
}

export function systemLines(run: Run, chart: SystemChart): Line[] {
  const start = startOf(run);
  const all = chart.metrics.flatMap(({ info, label }) =>
    info.ranks.map((rank) => ({
      run: run.id,
      metric: info.name,
      rank,
      label: info.ranks.length > 1 ? `node ${rank} ${label}` : label,
      start,
    })),
  );
  return all.slice(0, MOST_LINES).map((line, index) => ({ ...line, color: index }));
}
