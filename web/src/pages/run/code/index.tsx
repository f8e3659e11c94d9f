// The run's code: its snapshot's files with colours, and the difference to another run's.
import { useMemo } from 'preact/hooks';
import { API, getJson, part, pathOf } from '../../../api/http';
import type { Run } from '../../../api/types';
import { bytes, plural } from '../../../lib/format';
import { Copy, Empty, Fault, Loading } from '../../../parts/basics';
import { Against, nameOf } from '../../../parts/diff/against';
import { Counted, Diff } from '../../../parts/diff/diff';
import { gitOf } from '../../../parts/diff/facts';
import { countsOf, partsOf } from '../../../parts/diff/rows';
import { FileTree } from '../../../parts/filetree/filetree';
import { isReachable, shownName } from '../../../parts/filetree/names';
import { languageOf } from '../../../parts/highlight/languages';
import { Source } from '../../../parts/highlight/source';
import { useResource } from '../../../lib/useResource';
import { query, runHref } from '../../../lib/router';
import type { TabProps } from '../tab';
import {
  comparedOf,
  firstOf,
  readDiff,
  readFiles,
  readText,
  type Compared,
  type SnapshotFile,
  type Text,
} from './snapshot';
import './code.css';

export default function Code({ run }: TabProps) {
  const against = query.value.get('against') ?? '';
  if (!run.snapshot_id) {
    return (
      <Empty title="No code is kept with this run" command="run.take_snapshot('.')">
        A submitted run keeps its source folder. A run that was started in a notebook or a shell keeps what it is told
        to:
      </Empty>
    );
  }
  return (
    <section class="stack" aria-label="Code">
      <div class="row">
        <Git run={run} />
        <span class="grow" />
        <a class="button" href={`${API}/snapshots/${part(run.snapshot_id)}/zip`} download>
          Download zip
        </a>
        <Against run={run} against={against} tab="code" />
      </div>
      {against ? (
        <Comparison key={against} run={run} snapshot={run.snapshot_id} against={against} />
      ) : (
        <Files run={run} snapshot={run.snapshot_id} />
      )}
    </section>
  );
}

/** The commit and its branch; a dirty tree links to the patch that was kept. */
function Git({ run }: { run: Run }) {
  const git = gitOf(run);
  const commit = git.commit;
  if (!commit)
    return (
      <span class="soft small">
        Snapshot <code>{run.snapshot_id?.slice(0, 8)}</code>, from no git repository
      </span>
    );
  const uri = git.repository_uri ?? '';
  return (
    <span class="row git-facts">
      {/^https?:\/\//.test(uri) ? (
        <a class="cut git-uri" href={uri} target="_blank" rel="noopener noreferrer" title={uri}>
          {uri.replace(/^https?:\/\//, '')}
        </a>
      ) : (
        uri && (
          <span class="cut git-uri soft" title={uri}>
            {uri}
          </span>
        )
      )}
      {git.branch && (
        <span class="tag cut" title={`Branch ${git.branch}`}>
          {shownName(git.branch)}
        </span>
      )}
      <code title={commit}>{commit.slice(0, 10)}</code>
      <Copy text={commit} />
      {git.dirty === 'True' && (
        <a class="status warn" href={runHref(run.id, { tab: 'files', file: 'git/uncommitted.patch' })}>
          with uncommitted changes
        </a>
      )}
    </span>
  );
}

function Files({ run, snapshot }: { run: Run; snapshot: string }) {
  const found = useResource((signal) => readFiles(snapshot, signal), [snapshot]);
  if (!found.value)
    return found.error ? <Fault error={found.error} again={found.again} /> : <Loading what="Loading code" />;
  const { files, more } = found.value;
  const name = query.value.get('file');
  const chosen = name === null ? firstOf(files, run.spec.script) : files.find((file) => file.path === name);
  return (
    <div class="with-tree">
      <div class="card filetree">
        <FileTree
          files={files}
          chosen={chosen?.path ?? ''}
          hrefOf={(path) => runHref(run.id, { tab: 'code', file: path })}
          label="code"
        />
        <p class="small soft filetree-note">
          {more ? 'The first ' : ''}
          {plural(files.length, 'file')}, {bytes(files.reduce((sum, one) => sum + one.size, 0))}
        </p>
      </div>
      <div class="card">
        {chosen ? (
          <OneFile key={chosen.path} run={run} snapshot={snapshot} file={chosen} />
        ) : (
          <Empty title={files.length ? 'There is no such file' : 'The snapshot is empty'}>
            {name && <code>{shownName(name)}</code>}
          </Empty>
        )}
      </div>
    </div>
  );
}

function OneFile({ run, snapshot, file }: { run: Run; snapshot: string; file: SnapshotFile }) {
  const found = useResource<Text>(
    (signal) =>
      isReachable(file.path)
        ? readText(snapshot, file, signal)
        : Promise.resolve({ text: null, size: file.size, isWhole: true }),
    [snapshot, file.path],
  );
  return (
    <>
      <header class="shown-head">
        <h2 class="grow">{shownName(file.path)}</h2>
        {file.path === run.spec.script && (
          <span class="tag" title="The script that this run started">
            entry
          </span>
        )}
        <span class="small soft number">{bytes(file.size)}</span>
        {found.value?.text && <Copy text={found.value.text} />}
        {isReachable(file.path) && (
          <a class="button small" href={`${API}/snapshots/${part(snapshot)}/files/${pathOf(file.path)}`} download>
            Download
          </a>
        )}
      </header>
      {found.error && (
        <div class="code-note">
          <Fault error={found.error} again={found.again} />
        </div>
      )}
      {!found.value && !found.error && <Loading />}
      {found.value && (
        <>
          {!found.value.isWhole && (
            <p class="soft small code-note">
              The first {bytes(1_000_000)} of {bytes(file.size)}.
            </p>
          )}
          {found.value.text === null ? (
            <p class="soft code-note">
              {isReachable(file.path)
                ? 'Bytes, no text.'
                : 'The name of this file cannot stand in an address; the zip has it.'}
            </p>
          ) : file.size === 0 && file.kind === 'file' ? (
            <p class="soft code-note">This file is empty.</p>
          ) : (
            <Source
              text={found.value.text}
              language={file.kind === 'link' ? '' : languageOf(file.path)}
              chosen={Number(query.value.get('line')) || 0}
              lineHref={(line) => runHref(run.id, { tab: 'code', file: file.path, line })}
              label={shownName(file.path)}
            />
          )}
        </>
      )}
    </>
  );
}

const CHANGES = ['changed', 'added', 'removed', 'renamed'] as const;
const SIGNS = {
  added: ['+', 'diff-plus'],
  removed: ['−', 'diff-minus'],
  changed: ['±', 'soft'],
  renamed: ['→', 'soft'],
} as const;

function Comparison({ run, snapshot, against }: { run: Run; snapshot: string; against: string }) {
  const found = useResource(
    async (signal) => {
      const other = await getJson<Run>(`/runs/${part(against)}`, {}, signal);
      return { other, diff: other.snapshot_id ? await readDiff(snapshot, other.snapshot_id, signal) : null };
    },
    [snapshot, against],
  );
  if (!found.value)
    return found.error ? <Fault error={found.error} again={found.again} /> : <Loading what="Comparing" />;
  const { other, diff } = found.value;
  if (!diff || !other.snapshot_id)
    return (
      <Empty title="The other run keeps no code">
        {nameOf(other)} has no snapshot to compare with. Choose another run.
      </Empty>
    );
  const files = comparedOf(diff);
  if (files.length === 0) return <Empty title="The same code">All files of both runs are equal, byte for byte.</Empty>;
  const name = query.value.get('file');
  const chosen =
    files.find((file) => file.path === name) ??
    (name === null ? (files.find((file) => file.path === run.spec.script) ?? files[0]) : undefined);
  return (
    <div class="with-tree">
      <div class="card filetree">
        <FileTree
          files={files}
          chosen={chosen?.path ?? ''}
          hrefOf={(path) => runHref(run.id, { tab: 'code', against, file: path })}
          label="changed files"
          mark={(file) => (
            <span class={`mono ${SIGNS[file.change][1]}`} role="img" title={file.change} aria-label={file.change}>
              {SIGNS[file.change][0]}
            </span>
          )}
        />
        <p class="small soft filetree-note">
          {CHANGES.map((change) => [files.filter((file) => file.change === change).length, change] as const)
            .filter(([count]) => count > 0)
            .map(([count, change]) => `${count} ${change}`)
            .join(', ')}
          {diff.more ? '; there are more' : ''}
        </p>
      </div>
      <div class="card">
        {chosen ? (
          <OneDiff key={chosen.path} run={run} other={other} file={chosen} />
        ) : (
          <Empty title="This file is the same in both runs">
            <code>{shownName(name ?? '')}</code>
          </Empty>
        )}
      </div>
    </div>
  );
}

function OneDiff({ run, other, file }: { run: Run; other: Run; file: Compared }) {
  const found = useResource(
    (signal) =>
      Promise.all([
        readText(other.snapshot_id ?? '', file.before, signal),
        readText(run.snapshot_id ?? '', file.after, signal),
      ]),
    [run.snapshot_id, other.snapshot_id, file.path],
  );
  const [before, after] = found.value ?? [];
  const parts = useMemo(
    () => (before && after && before.text !== null && after.text !== null ? partsOf(before.text, after.text) : null),
    [before, after],
  );
  return (
    <>
      <header class="shown-head">
        <h2 class="grow">{shownName(file.path)}</h2>
        {parts && <Counted {...countsOf(parts)} />}
        <span class="small soft">{noteOf(file)}</span>
        {file.after && (
          <a class="button small" href={runHref(run.id, { tab: 'code', file: file.path })}>
            Whole file
          </a>
        )}
      </header>
      {found.error && (
        <div class="code-note">
          <Fault error={found.error} again={found.again} />
        </div>
      )}
      {!found.value && !found.error && <Loading />}
      {before && after && !parts && (
        <p class="soft code-note">
          Bytes, no text: {bytes(before.size)} became {bytes(after.size)}.
        </p>
      )}
      {before && after && parts && (
        <>
          {!(before.isWhole && after.isWhole) && (
            <p class="soft small code-note">Only the first {bytes(1_000_000)} of each are compared.</p>
          )}
          <Diff
            before={before.text ?? ''}
            after={after.text ?? ''}
            parts={parts}
            language={languageOf(file.path)}
            label={`Difference of ${shownName(file.path)}`}
          />
        </>
      )}
    </>
  );
}

const octal = (mode: number): string => mode.toString(8).padStart(3, '0');

/** Changes that no line shows. */
function noteOf({ before, after, change }: Compared): string {
  if (!before || !after) return change;
  if (change === 'renamed') return `renamed from ${shownName(before.path)}`;
  return before.kind === 'file' && after.kind === 'file' && before.mode !== after.mode
    ? `mode ${octal(before.mode)} → ${octal(after.mode)}`
    : '';
}
