import { expect, it } from 'vitest';
import { differing } from './columns';

it('takes only what differs, a missing one too, and few', () => {
  const runs: { parameters: Record<string, string> }[] = [
    { parameters: { same: '1', lr: '0.1', only: 'x' } },
    { parameters: { same: '1', lr: '0.2' } },
  ];
  expect(differing(runs)).toEqual(['lr', 'only']);
  const many = [0, 1].map((at) => ({
    parameters: Object.fromEntries([...'abcdefgh'].map((key) => [key, `${key}${at}`])),
  }));
  expect(differing(many)).toHaveLength(6);
  expect(differing([])).toEqual([]);
});
