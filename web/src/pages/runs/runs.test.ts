import { describe, expect, it, vi } from 'vitest';
import type { SentRow } from '../../api/types';
import { asked, cellText, columnsOf, halves, looksNumeric, rowOf, suggested } from './fields';
import { groupSegments, lineCount, placeOf, plainSegments, windowsBetween } from './segments';
import { suggest, taken } from './suggest';
import { both, filtersOf, nextSort, viewOf } from './view';
import { PAGE, Windows } from './windows';

const view = (text: string) => viewOf(new URLSearchParams(text));

describe('view', () => {
  it('is the newest runs first when the address says nothing', () => {
    expect(view('')).toEqual({
      experiment: '',
      filter: '',
      sort: 'created',
      descending: true,
      columns: null,
      group: '',
      open: [],
      children: false,
      view: 'active',
    });
  });

  it('is read from the address', () => {
    const found = view(
      'sort=metrics.loss&columns=status&columns=params.a,b&children=true&view=archived&descending=true&open=x&open=y',
    );
    expect(found).toMatchObject({
      sort: 'metrics.loss',
      descending: true,
      columns: ['status', 'params.a,b'],
      children: true,
      view: 'archived',
      open: ['x', 'y'],
    });
    expect(view('columns=-').columns).toEqual([]);
    expect(view('sort=metrics.loss').descending).toBe(false);
    expect(view('view=nonsense').view).toBe('active');
  });

  it('sorts one way, then the other, then as before', () => {
    expect(nextSort(view(''), 'metrics.loss')).toEqual({ sort: 'metrics.loss', descending: null });
    expect(nextSort(view('sort=metrics.loss'), 'metrics.loss')).toEqual({ sort: 'metrics.loss', descending: 'true' });
    expect(nextSort(view('sort=metrics.loss&descending=true'), 'metrics.loss')).toEqual({
      sort: null,
      descending: null,
    });
    expect(nextSort(view(''), 'created')).toEqual({ sort: null, descending: 'false' });
    expect(nextSort(view(''), 'duration')).toEqual({ sort: 'duration', descending: 'true' });
  });

  it('joins conditions whatever is in them', () => {
    expect(both('a = 1 or b = 2', 'c = 3')).toBe('(a = 1 or b = 2) and c = 3');
    expect(both(' ', 'c = 3')).toBe('c = 3');
    expect(both('a = 1', '')).toBe('a = 1');
    expect(filtersOf(view('filter=a&children=true&view=all&experiment=e'), 'b')).toEqual({
      experiment: 'e',
      filter: '(a) and b',
      include_children: true,
      view: 'all',
    });
  });
});

describe('columns', () => {
  it('are those that the server knows, once each', () => {
    const found = columnsOf(['metrics.loss', 'status', 'params.lr', 'nonsense', 'params.', 'metrics.loss']);
    expect(found.map((one) => one.field)).toEqual(['metrics.loss', 'status', 'params.lr']);
    expect(asked(found)).toEqual(['metrics.loss', 'params.lr']);
    const sent = { values: [0.5, 'x'] } as unknown as SentRow;
    expect(rowOf(sent, ['metrics.loss', 'params.lr', 'tags.t']).values).toEqual({
      'metrics.loss': 0.5,
      'params.lr': 'x',
      'tags.t': null,
    });
  });

  it('show numbers and texts', () => {
    expect([cellText(0.25), cellText('x'), cellText(''), cellText(null)]).toEqual(['0.25', 'x', '∅', '']);
    expect([looksNumeric('1e-3'), looksNumeric('auto'), looksNumeric(2), looksNumeric(null)]).toEqual([
      true,
      false,
      true,
      false,
    ]);
  });

  it('name a run so that its end is always seen', () => {
    expect(halves('mnist_1767325599_0001869f')).toEqual(['mnist_1767325599', '_0001869f']);
    expect(halves('short')).toEqual(['short', '']);
  });

  it('are suggested when many runs have them', () => {
    const found = [
      { field: 'params', key: 'lr', runs: 9 },
      { field: 'metrics', key: 'loss', runs: 8 },
      { field: 'metrics', key: 'rare', runs: 1 },
    ];
    expect(suggested(found, 10)).toEqual(['metrics.loss', 'params.lr']);
  });
});

describe('segments', () => {
  const groups = [
    { value: 1, count: 2, filter: 'a' },
    { value: 2, count: 3, filter: 'b' },
    { value: null, count: 1, filter: 'c' },
  ];

  it('put the runs of open groups below them', () => {
    const found = groupSegments(groups, ['b', 'gone'], () => undefined);
    expect(lineCount(found)).toBe(6);
    expect(placeOf(found, 1)).toMatchObject({ segment: { key: 'b', group: groups[1] }, at: 0 });
    expect(placeOf(found, 4)).toMatchObject({ segment: { key: 'b', start: 2 }, at: 2 });
    expect(placeOf(found, 5)?.segment.group).toBe(groups[2]);
    expect(placeOf(found, 6)).toBeUndefined();
    expect(windowsBetween(found, 0, 3)).toEqual([{ key: 'b', from: 0, to: 2 }]);
    expect(lineCount(groupSegments(groups, ['b'], () => 10))).toBe(13);
  });

  it('are one without groups', () => {
    expect(plainSegments(0)).toEqual([]);
    expect(windowsBetween(plainSegments(1000), 90, 120)).toEqual([{ key: '', from: 90, to: 121 }]);
  });
});

describe('windows', () => {
  const rows = (from: number, count: number) => Array.from({ length: count }, (_, at) => from + at);

  it('read what is looked at, once, and again when it changed', async () => {
    const read = vi.fn(async (offset: number, limit: number) => ({
      total: 250,
      rows: rows(offset, Math.min(limit, 250 - offset)),
    }));
    const changed = vi.fn();
    const found = new Windows<number>(read, changed, () => {});
    found.want(90, 130);
    await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(2));
    found.want(95, 140);
    expect(read.mock.calls.map(([offset]) => offset)).toEqual([0, PAGE]);
    expect([found.total, found.row(90), found.row(130), found.row(249)]).toEqual([250, 90, 130, undefined]);
    found.refresh();
    expect(found.row(130)).toBe(130);
    await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(4));
    found.close();
  });

  it('drop answers for places that nobody looks at any more', async () => {
    const signals: AbortSignal[] = [];
    const read = (offset: number, limit: number, signal: AbortSignal) => {
      signals.push(signal);
      return new Promise<{ total: number; rows: number[] }>((resolve) =>
        setTimeout(() => resolve({ total: 10_000, rows: rows(offset, limit) }), 200),
      );
    };
    const changed = vi.fn();
    const found = new Windows<number>(read, changed, () => {});
    found.want(0, 40);
    found.want(5000, 5040);
    await vi.waitFor(() => expect(changed).toHaveBeenCalledTimes(1));
    expect([signals[0]?.aborted, found.row(0), found.row(5010)]).toEqual([true, undefined, 5010]);
    found.close();
  });

  it('tell of a failure', async () => {
    const failed = vi.fn();
    const found = new Windows<number>(
      () => Promise.reject(new Error('no')),
      () => {},
      failed,
    );
    found.want(0, 40);
    await vi.waitFor(() => expect(failed).toHaveBeenCalledOnce());
    found.close();
  });
});

describe('suggestions', () => {
  const known = {
    columns: [
      { field: 'metrics', key: 'loss', runs: 5 },
      { field: 'tags', key: 'my team', runs: 1 },
    ],
    experiments: ['mnist', 'two words'],
  };
  const texts = (text: string, cursor = text.length) => suggest(text, cursor, known)?.choices.map((one) => one.text);

  it('are fields where a field belongs', () => {
    expect(texts('')?.slice(0, 2)).toEqual(['status', 'experiment']);
    expect(texts('lo')).toEqual(['metrics.loss']);
    expect(texts('not tea')).toEqual(['tags."my team"']);
    expect(texts('(sta')).toEqual(['status']);
    expect(texts('status = Failed and met')?.[0]).toBe('metrics.loss');
  });

  it('are values behind a comparison, and words behind a value', () => {
    expect(texts('status = fa')).toEqual(['Failed']);
    expect(texts('experiment != ')).toEqual(['mnist', '"two words"']);
    expect(texts('metrics.loss < 0')).toBeUndefined();
    expect(texts('status = Failed ')).toEqual(['and', 'or']);
  });

  it('stay away from texts', () => {
    expect(texts('name = "sta')).toBeUndefined();
    expect(texts('name = "a\\" sta')).toBeUndefined();
  });

  it('take the place of the word', () => {
    const text = 'sta = Failed';
    const found = suggest(text, 2, known)!;
    expect(taken(text, found, found.choices[0]!)).toEqual({ text: 'status = Failed', cursor: 7 });
  });
});
