// Flat paths as a tree of folders, and what a filter leaves of it. Pure.

export interface Folder<T> {
  name: string;
  path: string;
  folders: Folder<T>[];
  files: { name: string; path: string; item: T }[];
  /** Files and bytes below, at any depth. */
  count: number;
  size: number;
}

export interface Sized {
  path: string;
  size: number;
}

const byName = (one: { name: string }, other: { name: string }): number =>
  one.name.localeCompare(other.name, undefined, { numeric: true });

/** Return the root folder of the files whose path holds all words of `filter`, in any case. */
export function treeOf<T extends Sized>(files: readonly T[], filter = ''): Folder<T> {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const root = folder<T>('', '');
  const known = new Map<string, Folder<T>>([['', root]]);
  for (const item of files) {
    const lower = item.path.toLowerCase();
    if (!words.every((word) => lower.includes(word))) continue;
    const cut = item.path.lastIndexOf('/');
    const parent = folderAt(known, cut < 0 ? '' : item.path.slice(0, cut));
    parent.files.push({ name: item.path.slice(cut + 1), path: item.path, item });
  }
  total(root);
  return root;
}

const folder = <T>(name: string, path: string): Folder<T> => ({
  name,
  path,
  folders: [],
  files: [],
  count: 0,
  size: 0,
});

function folderAt<T>(known: Map<string, Folder<T>>, path: string): Folder<T> {
  const found = known.get(path);
  if (found) return found;
  const cut = path.lastIndexOf('/');
  const made = folder<T>(path.slice(cut + 1), path);
  known.set(path, made);
  folderAt(known, cut < 0 ? '' : path.slice(0, cut)).folders.push(made);
  return made;
}

function total<T extends Sized>(one: Folder<T>): void {
  one.folders.sort(byName);
  one.files.sort(byName);
  one.count = one.files.length;
  one.size = one.files.reduce((sum, file) => sum + file.item.size, 0);
  for (const below of one.folders) {
    total(below);
    one.count += below.count;
    one.size += below.size;
  }
}

/** One line of the drawn tree. */
export type Entry<T> =
  | { kind: 'folder'; depth: number; folder: Folder<T>; isOpen: boolean }
  | { kind: 'file'; depth: number; name: string; path: string; item: T };

/** Return the lines of the tree, with the folders open for which `isOpen` says so. */
export function entriesOf<T>(root: Folder<T>, isOpen: (folder: Folder<T>) => boolean, depth = 0): Entry<T>[] {
  const found: Entry<T>[] = [];
  for (const below of root.folders) {
    const open = isOpen(below);
    found.push({ kind: 'folder', depth, folder: below, isOpen: open });
    if (open) found.push(...entriesOf(below, isOpen, depth + 1));
  }
  for (const file of root.files) found.push({ kind: 'file', depth, name: file.name, path: file.path, item: file.item });
  return found;
}
