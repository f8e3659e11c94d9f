// A snapshot's files as the API tells them.
import { getBytes, getJson, part, pathOf } from '../../../api/http';
import { textOf } from '../files/kinds';

export interface SnapshotFile {
  path: string;
  kind: 'file' | 'link';
  size: number;
  mode: number;
  key: string;
  target: string;
}

export interface SnapshotFiles {
  id: string;
  files: SnapshotFile[];
  more: boolean;
}

export interface SnapshotDiff {
  added: SnapshotFile[];
  removed: SnapshotFile[];
  changed: { path: string; before: SnapshotFile; after: SnapshotFile }[];
  more: boolean;
}

/** One file of a comparison: the kind of change, and both versions. */
export interface Compared {
  path: string;
  size: number;
  change: 'added' | 'removed' | 'changed' | 'renamed';
  before: SnapshotFile | null;
  after: SnapshotFile | null;
}

export interface Text {
  text: string | null; // null: bytes
  size: number;
  isWhole: boolean;
}

const MOST = 1_000_000;

export const readFiles = (snapshot: string, signal: AbortSignal): Promise<SnapshotFiles> =>
  getJson(`/snapshots/${part(snapshot)}/files`, {}, signal);
export const readDiff = (snapshot: string, other: string, signal: AbortSignal): Promise<SnapshotDiff> =>
  getJson(`/snapshots/${part(snapshot)}/diff`, { with: other }, signal);

/** The first megabyte of a file, as text where it is some; a link's is where it leads. */
export async function readText(snapshot: string, file: SnapshotFile | null, signal: AbortSignal): Promise<Text> {
  if (!file || (file.kind === 'file' && file.size === 0)) return { text: '', size: 0, isWhole: true };
  if (file.kind === 'link') return { text: `→ ${file.target}`, size: 0, isWhole: true };
  const answer = await getBytes(
    `/snapshots/${part(snapshot)}/files/${pathOf(file.path)}`,
    {},
    { signal, range: [0, MOST - 1] },
  );
  const data = new Uint8Array(await answer.arrayBuffer());
  const isWhole = data.length >= file.size;
  return { text: textOf(data, isWhole), size: file.size, isWhole };
}

/** All files of a comparison by path. One that went and came with the same bytes under one other name was renamed. */
export function comparedOf(diff: SnapshotDiff): Compared[] {
  const gone = onceByKey(diff.removed);
  const came = onceByKey(diff.added);
  const renamed = diff.added.filter((file) => came.get(file.key) === file && gone.get(file.key));
  const moved = new Set(renamed.flatMap((file) => [file, gone.get(file.key)]));
  return [
    ...renamed.map(
      (file): Compared => ({
        path: file.path,
        size: file.size,
        change: 'renamed',
        before: gone.get(file.key)!,
        after: file,
      }),
    ),
    ...diff.added
      .filter((file) => !moved.has(file))
      .map((file): Compared => ({ path: file.path, size: file.size, change: 'added', before: null, after: file })),
    ...diff.removed
      .filter((file) => !moved.has(file))
      .map((file): Compared => ({ path: file.path, size: file.size, change: 'removed', before: file, after: null })),
    ...diff.changed.map(
      (one): Compared => ({
        path: one.path,
        size: one.after.size,
        change: 'changed',
        before: one.before,
        after: one.after,
      }),
    ),
  ].sort((one, other) => one.path.localeCompare(other.path));
}

/** Files whose bytes no other has; empty ones and links are too alike to say. */
function onceByKey(files: readonly SnapshotFile[]): Map<string, SnapshotFile | undefined> {
  const found = new Map<string, SnapshotFile | undefined>();
  for (const file of files)
    if (file.kind === 'file' && file.size > 0) found.set(file.key, found.has(file.key) ? undefined : file);
  return found;
}

const FIRST = [/(^|\/)(train|main|run|score)\.py$/, /^README/i, /^[^/]+\.py$/, /\.py$/];

/** The file to open first: the run's script, else a likely one. */
export function firstOf(files: readonly SnapshotFile[], script: string | null): SnapshotFile | undefined {
  const clean = script?.replace(/^\.\//, '');
  return (
    files.find((file) => file.path === clean) ??
    FIRST.map((pattern) => files.find((file) => pattern.test(file.path))).find(Boolean) ??
    files[0]
  );
}
