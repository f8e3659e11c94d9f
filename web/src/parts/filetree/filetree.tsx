// A tree of files beside what is chosen of it: arrow keys move, folders open and close, a box filters.
import type { ComponentChildren } from 'preact';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { bytes, plural } from '../../lib/format';
import { go } from '../../lib/router';
import { shownName } from './names';
import { entriesOf, treeOf, type Entry, type Folder, type Sized } from './tree';
import './filetree.css';

const MOST_OPEN = 60; // a tree of at most so many files starts open
const MOST_SHOWN = 2_000;

export function FileTree<T extends Sized>({
  files,
  chosen,
  hrefOf,
  mark,
  titleOf,
  label,
  action,
}: {
  files: readonly T[];
  chosen: string;
  hrefOf: (path: string) => string;
  /** A word or sign after the name. */
  mark?: (item: T) => ComponentChildren;
  /** More text for a file's tooltip, after its path. */
  titleOf?: (item: T) => string;
  label: string;
  /** An element at the end of a folder's line: a download. */
  action?: (folder: Folder<T>) => ComponentChildren;
}) {
  const [filter, setFilter] = useState('');
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(new Map());
  const list = useRef<HTMLUListElement>(null);
  const root = useMemo(() => treeOf(files, filter), [files, filter]);
  const isOpen = (one: Folder<T>): boolean =>
    toggled.get(one.path) ?? (filter !== '' || files.length <= MOST_OPEN || chosen.startsWith(`${one.path}/`));
  const entries = entriesOf(root, isOpen);
  const shown = entries.slice(0, MOST_SHOWN);
  const toggle = (one: Folder<T>, open = !isOpen(one)): void => setToggled(new Map(toggled).set(one.path, open));
  const current = shown.findIndex((one) => one.kind === 'file' && one.path === chosen);
  const [focus, setFocus] = useState(-1);
  const reachable = focus >= 0 && focus < shown.length ? focus : Math.max(0, current);

  const move = (to: number): void => {
    const next = Math.min(Math.max(to, 0), shown.length - 1);
    setFocus(next);
    list.current?.querySelectorAll<HTMLElement>('[data-entry]')[next]?.focus();
  };
  const press = (event: KeyboardEvent, at: number, one: Entry<T>): void => {
    const steps: Record<string, () => void> = {
      ArrowDown: () => move(at + 1),
      ArrowUp: () => move(at - 1),
      Home: () => move(0),
      End: () => move(shown.length - 1),
      ArrowRight: () => (one.kind === 'folder' ? (one.isOpen ? move(at + 1) : toggle(one.folder, true)) : undefined),
      ArrowLeft: () =>
        one.kind === 'folder' && one.isOpen
          ? toggle(one.folder, false)
          : move(shown.findLastIndex((above, place) => place < at && above.depth < one.depth)),
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    step();
  };
  useLayoutEffect(() => setFocus(-1), [filter]);
  useLayoutEffect(() => {
    // Only the list scrolls, never the page.
    const box = list.current;
    const item = box?.querySelector<HTMLElement>('[aria-current]')?.parentElement;
    if (!box || !item) return;
    const top = item.offsetTop;
    if (top < box.scrollTop || top + item.offsetHeight > box.scrollTop + box.clientHeight)
      box.scrollTop = top - box.clientHeight / 3;
  }, [chosen]);

  return (
    <div class="filetree">
      <input
        class="input filetree-filter"
        type="search"
        placeholder={`Filter ${plural(files.length, 'file')}`}
        aria-label={`Filter ${label}`}
        value={filter}
        onInput={(event) => setFilter(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === 'ArrowDown') move(0);
          if (event.key === 'Escape') setFilter('');
          const first = shown.find((one) => one.kind === 'file');
          if (event.key === 'Enter' && first?.kind === 'file') go(hrefOf(first.path), { replace: true });
        }}
      />
      <ul class="filetree-list" role="tree" aria-label={label} ref={list}>
        {shown.map((one, at) => (
          <li key={one.kind === 'folder' ? `${one.folder.path}/` : one.path} role="none" class="filetree-item">
            {one.kind === 'folder' ? (
              <div
                class="filetree-entry"
                role="treeitem"
                aria-level={one.depth + 1}
                aria-expanded={one.isOpen}
                data-entry
                tabIndex={at === reachable ? 0 : -1}
                style={{ '--depth': String(one.depth) }}
                title={shownName(one.folder.path)}
                onClick={(event) => {
                  if (!(event.target as Element).closest('a')) toggle(one.folder);
                }}
                onFocus={() => setFocus(at)}
                onKeyDown={(event) => {
                  const isOwn = event.target === event.currentTarget;
                  if (isOwn && (event.key === 'Enter' || event.key === ' ')) {
                    event.preventDefault();
                    toggle(one.folder);
                  } else press(event, at, one);
                }}
              >
                <span class="filetree-arrow" aria-hidden="true">
                  {one.isOpen ? '▾' : '▸'}
                </span>
                <span class="cut grow">{shownName(one.folder.name)}</span>
                <span class="faint small number">{bytes(one.folder.size)}</span>
                {action?.(one.folder)}
              </div>
            ) : (
              <a
                class="filetree-entry"
                role="treeitem"
                aria-level={one.depth + 1}
                aria-selected={one.path === chosen}
                aria-current={one.path === chosen ? 'true' : undefined}
                data-entry
                tabIndex={at === reachable ? 0 : -1}
                style={{ '--depth': String(one.depth) }}
                href={hrefOf(one.path)}
                title={shownName(one.path) + (titleOf ? `\n${titleOf(one.item)}` : '')}
                onFocus={() => setFocus(at)}
                onKeyDown={(event) => press(event, at, one)}
              >
                <span class="filetree-arrow" aria-hidden="true" />
                <span class="cut grow">{shownName(one.name)}</span>
                {mark?.(one.item)}
                <span class="faint small number">{bytes(one.item.size)}</span>
              </a>
            )}
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p class="soft small filetree-note">{files.length ? 'No file has that in its name.' : 'No files.'}</p>
      )}
      {entries.length > shown.length && (
        <p class="soft small filetree-note">
          {plural(entries.length - shown.length, 'more entry', 'more entries')}: filter to find them.
        </p>
      )}
    </div>
  );
}
