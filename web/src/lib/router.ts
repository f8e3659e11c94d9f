// The address holds the whole view: path and query are signals, and links to this server are followed without a reload.
import { computed, signal } from '@preact/signals';
import { address, part, type Query } from '../api/http';

const here = signal(location.pathname + location.search);

export const path = computed(() => new URL(here.value, location.origin).pathname);
export const query = computed(() => new URL(here.value, location.origin).searchParams);
export const workspace = computed(() => query.value.get('workspace') ?? DEFAULT_WORKSPACE);

export const DEFAULT_WORKSPACE = 'default';

/** The properties of every page: the last part of its path, decoded; empty where there is none. */
export interface PageProps {
  name: string;
}

/** Show another view. `replace`: without a step for the Back button. */
export function go(href: string, options: { replace?: boolean } = {}): void {
  if (href === here.value) return;
  const isOtherPath = new URL(href, location.origin).pathname !== path.value;
  history[options.replace ? 'replaceState' : 'pushState'](null, '', href);
  here.value = location.pathname + location.search;
  if (isOtherPath) scrollTo(0, 0);
}

/** Change some values of the query; null removes one. */
export function setQuery(changes: Query, options: { replace?: boolean } = { replace: true }): void {
  const next = new URLSearchParams(query.value);
  for (const [key, value] of Object.entries(changes)) {
    next.delete(key);
    if (value === null || value === undefined || value === '') continue;
    for (const one of Array.isArray(value) ? value : [String(value)]) next.append(key, one);
  }
  const text = next.toString();
  go(text ? `${path.value}?${text}` : path.value, options);
}

/** The address of a page in the present workspace. */
export function href(pathname: string, values: Query = {}): string {
  return address(pathname, { workspace: workspace.value === DEFAULT_WORKSPACE ? null : workspace.value, ...values });
}

export const runHref = (id: string, values: Query = {}): string => address(`/runs/${part(id)}`, values);
/** The compare page shows this many runs at most. */
export const MOST_COMPARED = 50;
export const compareHref = (ids: readonly string[]): string => address('/compare', { run: ids });

addEventListener('popstate', () => {
  here.value = location.pathname + location.search;
});

document.addEventListener('click', (event) => {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey)
    return;
  const link = (event.target as Element | null)?.closest?.('a');
  if (!link || link.target || link.hasAttribute('download') || link.origin !== location.origin) return;
  if (link.pathname.startsWith('/api/') || link.pathname.startsWith('/static/')) return;
  event.preventDefault();
  go(link.pathname + link.search);
});
