// The run's files: a tree of outputs and logs beside a preview of the one that is chosen.
import { useMemo } from 'preact/hooks';
import { address, API, getJson, part, pathOf } from '../../../api/http';
import { useWatch } from '../../../api/live';
import type { RunFile } from '../../../api/types';
import { hasEnded } from '../../../api/types';
import { bytes, exact, plural } from '../../../lib/format';
import { Copy, Empty, Fault, Loading, When } from '../../../parts/basics';
import { FileTree } from '../../../parts/filetree/filetree';
import { shownName } from '../../../parts/filetree/names';
import { useResource } from '../../../lib/useResource';
import { query, runHref } from '../../../lib/router';
import type { TabProps } from '../tab';
import { Preview } from './preview';

const FIRST = [/^outputs\/[^/]+$/, /^outputs\//, /^user_logs\/std_log\D*0*\.txt$/, /^user_logs\//];

/** The file shown when the address names none: an output, else the log. */
export const firstOf = (files: readonly RunFile[]): RunFile | undefined =>
  FIRST.map((pattern) => files.find((file) => pattern.test(file.name))).find(Boolean) ?? files[0];

export default function Files({ run }: TabProps) {
  const found = useResource((signal) => getJson<RunFile[]>(`/runs/${part(run.id)}/files`, {}, signal), [run.id]);
  useWatch([run.id], ['files', 'log', 'status'], found.again, 2000);
  const items = useMemo(
    () => (found.value ?? []).map((file) => ({ path: file.name, size: file.size, file })),
    [found.value],
  );
  if (!found.value)
    return found.error ? <Fault error={found.error} again={found.again} /> : <Loading what="Loading files" />;
  if (items.length === 0) {
    return (
      <Empty title="No files yet" command="run.upload_file('outputs/model.pkl', 'model.pkl')">
        {hasEnded(run.status)
          ? 'The run left none.'
          : 'What the script writes to ./outputs or ./logs appears here while it runs.'}{' '}
        Any file can be added from the script:
      </Empty>
    );
  }
  const name = query.value.get('file');
  const chosen = name === null ? firstOf(found.value) : found.value.find((file) => file.name === name);
  const hrefOf = (path: string): string => runHref(run.id, { tab: 'files', file: path });
  const zipHref = (folder: string): string => address(`${API}/runs/${part(run.id)}/zip`, { folder });
  return (
    <section class="with-tree" aria-label="Files">
      <div class="card filetree">
        <FileTree
          files={items}
          chosen={chosen?.name ?? ''}
          hrefOf={hrefOf}
          label="files"
          titleOf={({ file }) => `${bytes(file.size)}${file.updated_at ? `, ${exact(file.updated_at)}` : ''}`}
          mark={(item) => (item.file.complete ? null : <span class="dot-live" title="Still written" />)}
          action={(folder) => (
            <a
              class="button small quiet filetree-action"
              href={zipHref(folder.path)}
              title={`Download ${shownName(folder.name)} as a zip`}
              aria-label={`Download ${shownName(folder.name)} as a zip`}
            >
              ↓
            </a>
          )}
        />
        <p class="small soft filetree-note">
          {plural(items.length, 'file')}, {bytes(items.reduce((sum, one) => sum + one.size, 0))} ·{' '}
          <a href={zipHref('')}>Download all</a>
        </p>
      </div>
      <div class="card">
        {chosen ? (
          <>
            <header class="shown-head">
              <h2 class="grow">{shownName(chosen.name)}</h2>
              <span class="small soft number">{bytes(chosen.size)}</span>
              <span class="small soft">
                <When time={chosen.updated_at} />
              </span>
              {chosen.kind === 'stream' && (
                <a class="button small" href={runHref(run.id, { tab: 'log', file: chosen.name })}>
                  Open in Log
                </a>
              )}
              <Copy text={chosen.name} label="Copy name" />
              <a class="button small" href={`${API}/runs/${part(run.id)}/files/${pathOf(chosen.name)}`} download>
                Download
              </a>
            </header>
            <Preview
              key={chosen.name}
              runId={run.id}
              file={chosen}
              line={Number(query.value.get('line')) || 0}
              lineHref={(line) => runHref(run.id, { tab: 'files', file: chosen.name, line })}
            />
          </>
        ) : (
          <Empty title="There is no such file">
            The run has no file <code>{shownName(name ?? '')}</code>. Choose one of the list.
          </Empty>
        )}
      </div>
    </section>
  );
}
