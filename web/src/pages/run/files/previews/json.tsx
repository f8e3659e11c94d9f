import { useState } from 'preact/hooks';
import { number, plural } from '../../../../lib/format';
import type { Node } from '../../../../parts/json/json';

const OPEN_DEPTH = 2;
const STEP = 200;

/** A value of JSON; objects and lists open and close. */
export function JsonTree({ node, name, depth = 0 }: { node: Node; name?: string | undefined; depth?: number }) {
  const items: readonly (readonly [string, Node])[] =
    node.kind === 'object'
      ? node.entries
      : node.kind === 'list'
        ? node.items.map((one, at) => [String(at), one] as const)
        : [];
  const [isOpen, setOpen] = useState(depth < OPEN_DEPTH && (depth === 0 || items.length <= 50));
  const [most, setMost] = useState(STEP);
  const label = name === undefined ? null : <span class="code-name">{name}: </span>;
  if (node.kind !== 'object' && node.kind !== 'list') {
    return (
      <div class="json-line">
        <span class="json-arrow" />
        {label}
        <span class={`code-${node.kind === 'word' ? 'keyword' : node.kind}`}>
          {node.kind === 'string' ? JSON.stringify(node.text) : node.text}
        </span>
      </div>
    );
  }
  const counted = node.kind === 'list' ? plural(items.length, 'item') : plural(items.length, 'key');
  return (
    <div class="json-node">
      <button type="button" class="json-line" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="json-arrow" aria-hidden="true">
          {isOpen ? '▾' : '▸'}
        </span>
        {label}
        <span class="faint">
          {node.kind === 'list' ? '[' : '{'} {counted} {node.kind === 'list' ? ']' : '}'}
        </span>
      </button>
      {isOpen && (
        <div class="json-below">
          {items.slice(0, most).map(([key, one], at) => (
            <JsonTree key={at} node={one} name={key} depth={depth + 1} />
          ))}
          {items.length > most && (
            <button type="button" class="button small quiet" onClick={() => setMost(most + 10 * STEP)}>
              Show more of the {number(items.length - most)} that follow
            </button>
          )}
        </div>
      )}
    </div>
  );
}
