import { expect, it } from 'vitest';
import { blocksOf, piecesOf } from './markdown';

it('finds blocks', () => {
  const text =
    '# Title #\n\nsome *text*\nmore\n\n- one\n  - two\n1. three\n\n```python\nx = 1\n```\n> said\n---\n| a | b |\n|---|---|\n| 1 | `2` |';
  expect(blocksOf(text).map((block) => block.kind)).toEqual([
    'heading',
    'paragraph',
    'item',
    'item',
    'item',
    'code',
    'quote',
    'line',
    'table',
  ]);
  expect(blocksOf(text)[1]).toEqual({
    kind: 'paragraph',
    pieces: [
      { kind: 'text', text: 'some ' },
      { kind: 'em', text: 'text' },
      { kind: 'text', text: ' more' },
    ],
  });
  expect(blocksOf(text)[8]).toEqual({
    kind: 'table',
    rows: [
      [[{ kind: 'text', text: 'a' }], [{ kind: 'text', text: 'b' }]],
      [[{ kind: 'text', text: '1' }], [{ kind: 'code', text: '2' }]],
    ],
  });
});

it.each([
  'javascript:alert(1)',
  'data:text/html,x',
  '//evil.example',
  '/api/v1/runs',
  'JaVaScRiPt:alert(1)',
  'http:evil',
])('a link to %s is text', (to) => {
  expect(piecesOf(`[x](${to})`).map((piece) => piece.kind)).not.toContain('link');
});

it('links to the web, loads no picture, and keeps tags as text', () => {
  expect(piecesOf('[x](https://a.example/b)')).toEqual([{ kind: 'link', text: 'x', to: 'https://a.example/b' }]);
  expect(piecesOf('![x](https://a.example/b.png)')).toEqual([{ kind: 'text', text: 'x' }]);
  expect(piecesOf('<img src=x onerror=alert(1)>')).toEqual([{ kind: 'text', text: '<img src=x onerror=alert(1)>' }]);
  expect(piecesOf('snake_case_name 2*3*4')).toEqual([{ kind: 'text', text: 'snake_case_name 2*3*4' }]);
});
