import { expect, it } from 'vitest';
import type { MetricInfo, Run } from '../../../api/types';
import { groupsOf, linesOf, shapeOf, shortName, systemCharts, systemLines } from './groups';

const info = (name: string, changes: Partial<MetricInfo> = {}): MetricInfo => ({
  name,
  kind: 'scalar',
  columns: [''],
  ranks: [0],
  count: 5,
  last: 1,
  minimum: 0,
  maximum: 1,
  artifact: null,
  ...changes,
});
const run = { id: 'r', started_at: '2026-01-01T00:00:00Z', created_at: '2025-12-31T00:00:00Z' } as Run;

it('shows numbers as charts, single values as values, words as lists', () => {
  const shapes = [
    info('a'),
    info('a', { count: 1 }),
    info('a', { last: 'NaN' }),
    info('a', { last: 'words' }),
    info('a', { last: true }),
    info('a', { kind: 'table' }),
    info('a', { kind: 'artifact' }),
    info('a', { count: 1, ranks: [0, 1] }),
  ];
  expect(shapes.map(shapeOf)).toEqual(['chart', 'value', 'chart', 'text', 'chart', 'table', 'file', 'chart']);
});

it('groups by what stands before the slash, in the order of logging', () => {
  const found = groupsOf([info('train/loss'), info('lr'), info('train/acc/top5'), info('/odd'), info('end/')], '');
  expect(found.map((group) => [group.name, group.items.map((one) => shortName(one, group.name))])).toEqual([
    ['train', ['loss', 'acc/top5']],
    ['', ['lr', '/odd', 'end/']],
  ]);
  expect(
    groupsOf([info('train/Loss'), info('val/loss'), info('lr')], ' loss TRAIN ').flatMap((group) =>
      group.items.map((one) => one.name),
    ),
  ).toEqual(['train/Loss']);
});

it('draws a line per rank', () => {
  expect(linesOf(run, info('loss'))).toEqual([
    { run: 'r', metric: 'loss', label: 'loss', color: 0, start: Date.parse('2026-01-01T00:00:00Z') },
  ]);
  expect(linesOf(run, info('loss', { ranks: [0, 3] })).map((line) => [line.label, line.rank, line.color])).toEqual([
    ['rank 0', 0, 0],
    ['rank 3', 3, 1],
  ]);
});

it('puts what the machine did into few charts', () => {
  const names = [
    'cpu_percent',
    'gpu_0_percent',
    'gpu_1_percent',
    'gpu_0_memory_mb',
    'disk_read_mb_s',
    'disk_write_mb_s',
    'odd',
  ];
  const charts = systemCharts(names.map((name) => info(`_system/${name}`)));
  expect(charts.map((chart) => [chart.title, chart.metrics.map((one) => one.label)])).toEqual([
    ['CPU', ['CPU']],
    ['GPU', ['GPU 0', 'GPU 1']],
    ['GPU memory', ['GPU 0']],
    ['Disk', ['read', 'write']],
    ['odd', ['odd']],
  ]);
  const nodes = systemLines(run, systemCharts([info('_system/cpu_percent', { ranks: [0, 1] })])[0]!);
  expect(nodes.map((line) => line.label)).toEqual(['node 0 CPU', 'node 1 CPU']);
});
