import { h } from 'preact';
import { expect, test } from 'vitest';
import { writeOutEverywhere, writtenOut } from './bidi';

test('what turns text is written out, the rest stays', () => {
  expect(writtenOut('exe\u202egpj.py')).toBe('exe\\u202egpj.py');
  expect(writtenOut('\u2066a\u2069\u061c')).toBe('\\u2066a\\u2069\\u061c');
  expect(writtenOut('outputs/a\uf01b[2J\uf05cb\uf0ff')).toBe('outputs/a\\x1b[2J\\x5cb\\xff');
  expect(writtenOut('train-é-模型 <b> \u00a0')).toBe('train-é-模型 <b> \u00a0');
});

test('elements get their text so, however deep, and components get theirs as it is', () => {
  writeOutEverywhere();
  const children = (vnode: { props: object }): unknown => (vnode.props as { children?: unknown }).children;
  expect(children(h('p', { title: '\u202e' }, 'a\u202eb'))).toBe('a\\u202eb');
  expect(h('p', { title: '\u202ex' }).props.title).toBe('\\u202ex');
  expect(children(h('p', null, ['a', ['\u202e', 1]]))).toEqual(['a', ['\\u202e', 1]]);
  expect(children(h(() => null, null, '\u202e'))).toBe('\u202e');
});
