// The newest files of the run.
import { API, part, pathOf } from '../../../api/http';
import { hasEnded, type Run, type RunFile } from '../../../api/types';
import { bytes } from '../../../lib/format';
import { When } from '../../../parts/basics';
import { runHref } from '../../../lib/router';
import { Card } from './card';

const MOST = 8;

export function Outputs({ run, files }: { run: Run; files: RunFile[] | undefined }) {
  if (!files) return null;
  const kept = files.filter((file) => file.kind === 'blob');
  const shown = [...kept].sort((a, b) => (b.updated_at ?? '').localeCompare(a.updated_at ?? '')).slice(0, MOST);
  return (
    <Card
      title="Files"
      count={kept.length}
      more={
        kept.length > 0 && (
          <a class="small" href={runHref(run.id, { tab: 'files' })}>
            All files
          </a>
        )
      }
    >
      {shown.length === 0 ? (
        <p class="overview-note soft">
          {hasEnded(run.status) ? (
            'This run left no files.'
          ) : (
            <>
              What the script writes to <code>outputs/</code> appears here.
            </>
          )}
        </p>
      ) : (
        <table class="plain-table">
          <tbody>
            {shown.map((file) => (
              <tr key={file.name}>
                <td>
                  <a href={runHref(run.id, { tab: 'files', file: file.name })}>{file.name}</a>
                </td>
                <td class="number soft still">{bytes(file.size)}</td>
                <td class="soft wide">
                  <When time={file.updated_at} />
                </td>
                <td class="number still">
                  <a href={`${API}/runs/${part(run.id)}/files/${pathOf(file.name)}`} download>
                    Download
                  </a>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}
