// JSON as indented text, digit by digit as it was sent; short lists and objects stay on one line. Pure.
import { parseJson, type Node } from './json';

const WIDTH = 100;

/** Return the text indented; null when it is not JSON. */
export function prettyJson(text: string): string | null {
  const node = parseJson(text);
  return node && written(node, '');
}

function written(node: Node, indent: string): string {
  const short = flat(node, WIDTH - indent.length);
  if (short !== null) return short;
  const inner = `${indent}  `;
  if (node.kind === 'object') {
    const lines = node.entries.map(([key, one]) => `${inner}${JSON.stringify(key)}: ${written(one, inner)}`);
    return `{\n${lines.join(',\n')}\n${indent}}`;
  }
  if (node.kind === 'list') return `[\n${node.items.map((one) => inner + written(one, inner)).join(',\n')}\n${indent}]`;
  return scalar(node);
}

/** The value on one line; null when it is longer than `most` characters. */
function flat(node: Node, most: number): string | null {
  if (node.kind !== 'object' && node.kind !== 'list') return scalar(node);
  const isObject = node.kind === 'object';
  const parts: string[] = [];
  let left = most - 2;
  const items: readonly (readonly [string, Node])[] = isObject
    ? node.entries
    : node.items.map((one) => ['', one] as const);
  for (const [key, one] of items) {
    const value = flat(one, left);
    if (value === null) return null;
    const part = isObject ? `${JSON.stringify(key)}: ${value}` : value;
    left -= part.length + 2;
    if (left < 0) return null;
    parts.push(part);
  }
  return isObject ? `{${parts.join(', ')}}` : `[${parts.join(', ')}]`;
}

const scalar = (node: { kind: string; text: string }): string =>
  node.kind === 'string' ? JSON.stringify(node.text) : node.text;
