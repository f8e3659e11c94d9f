// The last lines of the run's own output.
import { getJson, part } from '../../../api/http';
import { useWatch } from '../../../api/live';
import { hasEnded, type Run, type RunFile } from '../../../api/types';
import { Fault } from '../../../parts/basics';
import { useResource } from '../../../lib/useResource';
import { runHref } from '../../../lib/router';
import { diagnosisOf, mainLog, plainLines } from '../facts';
import { Card } from './card';

const LINES = 14;

export function LogTail({ run, files }: { run: Run; files: RunFile[] | undefined }) {
  const log = files ? mainLog(files) : null;
  if (!files || (log && diagnosisOf(run)?.lines.length && diagnosisOf(run)?.log === log.name)) return null; // the diagnosis shows it
  if (!log) {
    return (
      <Card title="Log">
        <p class="overview-note soft">
          {hasEnded(run.status) ? 'This run left no log.' : 'It has not written anything yet.'}
        </p>
      </Card>
    );
  }
  return <Tail run={run} name={log.name} />;
}

function Tail({ run, name }: { run: Run; name: string }) {
  const path = `/runs/${part(run.id)}/log/lines`;
  const found = useResource(
    (signal) => getJson<{ lines: string[] }>(path, { file: name, first: -LINES, count: LINES }, signal),
    [path, name],
  );
  useWatch([run.id], ['log', 'status'], found.again, 500);
  const lines = found.value?.lines.map((line) => plainLines(line).join(' '));
  return (
    <Card
      title="Log"
      more={
        <a class="small" href={runHref(run.id, { tab: 'log', file: name })}>
          {name}
        </a>
      }
    >
      {found.error && <Fault error={found.error} again={found.again} />}
      {lines && lines.length > 0 && (
        <pre class="overview-log" role="group" tabIndex={0} aria-label="Last lines of the log">
          {lines.join('\n')}
        </pre>
      )}
      {lines && !lines.length && <p class="overview-note soft">It is empty{hasEnded(run.status) ? '' : ' yet'}.</p>}
    </Card>
  );
}
