// The run at a glance: its phases, key metrics, the end of its log, what it was given and what it left.
import { getJson, part } from '../../../api/http';
import { useWatch } from '../../../api/live';
import type { RunFile } from '../../../api/types';
import { useResource } from '../../../lib/useResource';
import type { TabProps } from '../tab';
import { ownProperties } from '../facts';
import { Prose } from '../../../parts/prose';
import { ChildrenCard } from './children';
import { Card } from './card';
import { Command, Details } from './details';
import { LogTail } from './log';
import { KeyMetrics } from './metrics';
import { Outputs } from './outputs';
import { Pairs } from './pairs';
import { Timeline } from './timeline';
import './overview.css';

export default function Tab({ run }: TabProps) {
  const path = `/runs/${part(run.id)}`;
  const files = useResource((signal) => getJson<RunFile[]>(`${path}/files`, {}, signal), [run.id]);
  useWatch([run.id], ['files', 'status', 'log'], files.again, 1000);
  const parameters = Object.entries(run.parameters);
  const properties = ownProperties(run);
  return (
    <div class="overview">
      <div class="overview-main">
        {run.warnings.length > 0 && <Warnings warnings={run.warnings} />}
        <KeyMetrics run={run} />
        <ChildrenCard run={run} />
        <LogTail run={run} files={files.value} />
        <Outputs run={run} files={files.value} />
      </div>
      <div class="overview-side">
        <Timeline run={run} />
        {parameters.length > 0 && (
          <Card title="Parameters">
            <Pairs pairs={parameters} />
          </Card>
        )}
        <Command run={run} />
        <Details run={run} />
        {properties.length > 0 && (
          <Card title="Properties" count={properties.length} isFolded>
            <Pairs pairs={properties} />
          </Card>
        )}
      </div>
    </div>
  );
}

function Warnings({ warnings }: { warnings: { source?: string; message?: string }[] }) {
  return (
    <Card title="Warnings" count={warnings.length} tone="warn">
      <ul class="overview-list">
        {warnings.slice(0, 50).map((one, index) => (
          <li key={index}>
            {one.source && <strong>{one.source}: </strong>}
            <Prose text={one.message ?? ''} />
          </li>
        ))}
      </ul>
    </Card>
  );
}
