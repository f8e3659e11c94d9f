// Characters that turn the direction of text make one name look like another: they are written out, on every page.
import { options, type VNode } from 'preact';

const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Return `text` with such characters as `\u202e`. */
export const writtenOut = (text: string): string =>
  text.search(TURNING) < 0 ? text : text.replace(TURNING, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`);

const shown = (child: unknown): unknown =>
  typeof child === 'string' ? writtenOut(child) : Array.isArray(child) ? child.map(shown) : child;

/** Have all text that elements get from now on be written out; titles too. */
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
