// Bidirectional control characters make one name look like another: every page shows them as escapes such as `\u202e`.
import { options, type VNode } from 'preact';

// Characters that stand for a byte of a file's name (core/names.py) are shown as `\x1b`: no font has them.
const ODD = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\uf001-\uf0ff]/g;

const hex = (code: number, digits: number): string => code.toString(16).padStart(digits, '0');

const written = (one: string): string => {
  const code = one.charCodeAt(0);
  return code > 0xf000 ? `\\x${hex(code - 0xf000, 2)}` : `\\u${hex(code, 4)}`;
};

/** Return `text` with these characters escaped. */
export const writtenOut = (text: string): string => (text.search(ODD) < 0 ? text : text.replace(ODD, written));

const shown = (child: unknown): unknown =>
  typeof child === 'string' ? writtenOut(child) : Array.isArray(child) ? child.map(shown) : child;

/** Escape the text and the title of every element that is made from now on. */
export function writeOutEverywhere(): void {
  const before = options.vnode;
  options.vnode = (vnode: VNode) => {
    if (typeof vnode.type === 'string') {
      const props = vnode.props as { children?: unknown; title?: unknown };
      if (props.children !== undefined) props.children = shown(props.children);
      if (typeof props.title === 'string') props.title = writtenOut(props.title);
    }
    before?.(vnode);
  };
}
