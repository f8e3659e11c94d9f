// Compute targets: their nodes, what runs there, and what each run in the queue waits for. Read again while it is shown.
import { type ApiError, getJson, part } from '../../api/http';
import { useLive } from '../../api/live';
import { bytes, duration, number, plural } from '../../lib/format';
import { Command, Empty, When } from '../../parts/basics';
import { Prose } from '../../parts/prose';
import { useResource } from '../../lib/useResource';
import { href, workspace } from '../../lib/router';
import type { PageProps } from '../../lib/router';
import { AssetList, type Column } from '../../parts/assets/list';
import { AssetHead, Fact, inWorkspace, RunLink, Section, Shown, Tags } from '../../parts/assets/layout';
import { kindOf, nodesText } from '../../parts/assets/shape';
import type { ComputeNode, ComputeRun, ComputeTarget } from '../../api/assets';

const EVERY_MS = 5_000; // a cluster's nodes are a few seconds old anyway
const LOCAL = 'local';

export default function Compute({ name }: PageProps) {
  return <div class="page">{name ? <Target name={name} /> : <List />}</div>;
}

async function readAll(signal: AbortSignal): Promise<ComputeTarget[]> {
  const [made, local] = await Promise.all([
    getJson<ComputeTarget[]>(inWorkspace('/compute'), {}, signal),
    getJson<ComputeTarget>(inWorkspace(`/compute/${LOCAL}`), {}, signal),
  ]);
  return [local, ...made.filter((one) => one.name !== LOCAL)];
}

function List() {
  const resource = useLive(workspace.value, useResource(readAll, [workspace.value]), EVERY_MS);
  return (
    <>
      <AssetList
        title="Compute"
        what="compute target"
        place="/compute"
        resource={resource}
        all={resource.value}
        nameOf={(one) => one.name}
        words={(one) => [kindOf(one), one.spec.description, ...Object.entries(one.spec.tags).flat()]}
        mark={(one) => one.spec.is_stopped && <span class="soft small"> stopped</span>}
        columns={COLUMNS}
      />
      {resource.value?.length === 1 && (
        <Empty title="Runs go to this machine" command="runyard compute create gpu-pool --max-nodes 4">
          More targets: a pool of nodes, or a Slurm or Ray cluster or machines over SSH with{' '}
          <code>runyard compute attach</code>.
        </Empty>
      )}
    </>
  );
}

const countOf = (runs: readonly unknown[]) => runs.length || <span class="faint">0</span>;
const COLUMNS: Column<ComputeTarget>[] = [
  { head: 'Kind', class: 'wide soft', cell: kindOf },
  { head: 'Nodes', cell: nodesText },
  { head: 'Running', class: 'number', cell: (one) => countOf(one.running) },
  { head: 'Waiting', class: 'number', cell: (one) => countOf(one.waiting) },
  {
    head: 'At the moment',
    class: 'wide soft waits',
    cell: (one) => <Prose text={one.note || one.waiting[0]?.waits_for || one.spec.description} />,
  },
];

function Target({ name }: { name: string }) {
  const resource = useLive(
    workspace.value,
    useResource(
      (signal) => getJson<ComputeTarget>(inWorkspace(`/compute/${part(name)}`), {}, signal),
      [workspace.value, name],
    ),
    EVERY_MS,
  );
  const target = resource.value;
  if (isMissing(resource.error) && !target) {
    return (
      <Empty title={`There is no compute target ${name}`} command="runyard compute list">
        <a href={href('/compute')}>All compute targets</a>
      </Empty>
    );
  }
  return (
    <>
      <AssetHead place="/compute" title="Compute" name={name}>
        {target && <span class="soft">{kindOf(target)}</span>}
        {target?.alias_of && <span class="soft">stands for {target.alias_of}</span>}
        {target && <Tags tags={target.spec.tags} />}
      </AssetHead>
      <Shown resource={resource} what="the compute target">
        {(found) => (
          <div class="stack">
            {found.note && <p class="asset-note">{found.note}</p>}
            {found.spec.is_stopped && (
              <p class="asset-note">
                No run starts on it: it is stopped. <code>runyard compute start {found.name}</code>
              </p>
            )}
            <div class="stat-row">
              <Stat
                label={found.spec.max_nodes ? 'nodes at most' : 'nodes'}
                value={found.spec.max_nodes || found.nodes.length || '–'}
              />
              <Stat label="nodes up" value={found.nodes.length} />
              <Stat label="running" value={found.running.length} />
              <Stat label="waiting" value={found.waiting.length} />
            </div>
            <Queue runs={found.waiting} name={name} />
            <Running runs={found.running} />
            <Nodes nodes={found.nodes} target={found} />
            <Facts target={found} />
          </div>
        )}
      </Shown>
    </>
  );
}

const isMissing = (error: ApiError | undefined): boolean => error?.status === 404;

const Stat = ({ label, value }: { label: string; value: number | string }) => (
  <div class="card stat">
    <strong>{value}</strong>
    <span class="small soft">{label}</span>
  </div>
);

function Queue({ runs, name }: { runs: ComputeRun[]; name: string }) {
  return (
    <Section title="Queue" count={runs.length}>
      {!runs.length ? (
        <div class="asset-none row soft">
          Nothing waits. <Command text={`runyard submit --target ${name} train.py`} />
        </div>
      ) : (
        <table class="plain-table">
          <thead>
            <tr>
              <th class="number wide tight">#</th>
              <th>Run</th>
              <th class="number">Nodes</th>
              <th>Waits for</th>
            </tr>
          </thead>
          <tbody>
            {runs.map((run, at) => (
              <tr key={run.run_id}>
                <td class="number faint wide">{at + 1}</td>
                <td>
                  <RunLink id={run.run_id} />
                </td>
                <td class="number">{run.node_count}</td>
                <td class="waits">
                  {run.waits_for ? <Prose text={run.waits_for} /> : <span class="faint">those before it</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Section>
  );
}

function Running({ runs }: { runs: ComputeRun[] }) {
  if (!runs.length) return null;
  return (
    <Section title="Running" count={runs.length}>
      <table class="plain-table">
        <thead>
          <tr>
            <th>Run</th>
            <th class="number">Nodes</th>
            <th>GPUs</th>
          </tr>
        </thead>
        <tbody>
          {runs.map((run) => (
            <tr key={run.run_id}>
              <td>
                <RunLink id={run.run_id} />
              </td>
              <td class="number">{run.node_count}</td>
              <td class="soft">{run.gpus.join(', ') || '–'}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}

function Nodes({ nodes, target }: { nodes: ComputeNode[]; target: ComputeTarget }) {
  if (target.name === LOCAL) return null;
  // A cluster reports the hardware of its machines; a pool's own nodes have no such facts.
  const has = {
    cpus: nodes.some((node) => node.cpus),
    gpus: nodes.some((node) => node.gpu_count || node.gpus.length),
    memory: nodes.some((node) => node.memory_bytes),
    notes: nodes.some((node) => node.note),
  };
  return (
    <Section title="Nodes" count={nodes.length}>
      {!nodes.length ? (
        <p class="asset-none soft">
          {target.spec.max_nodes
            ? `None is there now; up to ${target.spec.max_nodes} come when runs need them.`
            : 'None is known.'}
        </p>
      ) : (
        <div class="scroll-x">
          <table class="plain-table">
            <thead>
              <tr>
                <th>Node</th>
                <th>State</th>
                {has.cpus && <th class="number wide">CPUs</th>}
                {has.gpus && <th class="number">GPUs</th>}
                {has.memory && <th class="number wide">Memory</th>}
                <th>Run</th>
                {has.notes && <th>Note</th>}
              </tr>
            </thead>
            <tbody>
              {nodes.map((node) => (
                <tr key={`${node.name} ${node.address}`}>
                  <td title={node.address}>{node.name}</td>
                  <td>
                    <span class={`status ${toneOf(node)}`}>
                      <span class="dot" aria-hidden="true" />
                      <span class="node-state">{node.state || (node.run_id ? 'busy' : 'idle')}</span>
                    </span>
                  </td>
                  {has.cpus && <td class="number wide">{number(node.cpus)}</td>}
                  {has.gpus && <td class="number">{number(node.gpu_count || node.gpus.length)}</td>}
                  {has.memory && (
                    <td class="number wide">
                      {node.memory_bytes ? bytes(node.memory_bytes) : <span class="faint">–</span>}
                    </td>
                  )}
                  <td>{node.run_id ? <RunLink id={node.run_id} /> : <span class="faint">–</span>}</td>
                  {has.notes && <td class="soft waits">{node.note}</td>}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </Section>
  );
}

/** The clusters' words are many; those that say trouble are few. */
function toneOf(node: ComputeNode): string {
  if (/down|drain|fail|dead|unreach|error|lost/i.test(node.state) || (node.note && !node.run_id)) return 'bad';
  return node.run_id || /alloc|mix|busy|comp/i.test(node.state) ? 'busy' : 'good';
}

function Facts({ target }: { target: ComputeTarget }) {
  const { spec } = target;
  const facts: [string, preact.ComponentChildren][] = [
    ['Description', spec.description],
    ['Size', spec.vm_size],
    [
      'Nodes',
      spec.type === 'Local'
        ? spec.max_nodes
          ? `${plural(spec.max_nodes, 'run')} at a time`
          : 'as many runs as come'
        : spec.max_nodes
          ? `${spec.min_nodes} to ${spec.max_nodes}`
          : '',
    ],
    [
      'A node goes',
      spec.type === 'AmlCompute' && spec.idle_seconds
        ? `after ${duration(spec.idle_seconds * 1000)} without a run`
        : '',
    ],
    ['Cluster', spec.engine || spec.backend],
    ['Made', target.created_at && <When time={target.created_at} />],
    ...Object.entries(spec.options).map(([key, value]): [string, string] => [
      key.replaceAll('_', ' '),
      typeof value === 'string' ? value : JSON.stringify(value),
    ]),
  ];
  return (
    <Section title="About">
      <dl class="facts">
        {facts.map(([label, value]) => (
          <Fact key={label} name={label}>
            {value}
          </Fact>
        ))}
      </dl>
    </Section>
  );
}
