// The run's request: command, target, environment, data, code, limits.
import type { ComponentChildren } from 'preact';
import { getJson, namePart, part } from '../../../api/http';
import type { Run } from '../../../api/types';
import { duration, exact } from '../../../lib/format';
import { Copy } from '../../../parts/basics';
import { useResource } from '../../../lib/useResource';
import { href, runHref } from '../../../lib/router';
import { commandOf, distributionOf, gitOf, record, resourcesOf, text, type GitFacts } from '../facts';
import { Card } from './card';

const NO_LIMIT_S = 2_592_000; // the server's value for a run without a limit
const MOST_HOSTS = 8;

interface Host {
  attempt: number;
  rank: number;
  host: string;
  address: string;
}

export function Command({ run }: { run: Run }) {
  const command = commandOf(run);
  if (!command) return null;
  return (
    <Card title={run.spec.command ? 'Command' : 'Script'} more={<Copy text={command} />}>
      <pre class="overview-command">{command}</pre>
    </Card>
  );
}

export function Details({ run }: { run: Run }) {
  const hosts = useResource(
    (signal) => getJson<Host[]>(`/runs/${part(run.id)}/nodes`, {}, signal),
    [run.id, run.attempt, run.status],
  );
  const git = gitOf(run);
  const spec = run.spec;
  const rows: [string, ComponentChildren][] = [
    ['Type', run.type ?? 'interactive'],
    ['Target', <a href={href(`/compute/${part(spec.target)}`)}>{spec.target}</a>],
    ['Processes', distributionOf(run)],
    ['Machines', hosts.value?.length ? <Hosts hosts={hosts.value} /> : null],
    ['GPUs', spec.gpus === null ? null : `${spec.gpus} a node`],
    ['Resources', resourcesOf(run)],
    ['Environment', <EnvironmentName run={run} />],
    ['Python', text(run.environment.python) || spec.environment.python_version],
    ['Data', hasAny(spec.datasets, spec.data_references, spec.outputs) ? <Data run={run} /> : null],
    ['Time limit', spec.time_limit_s && spec.time_limit_s !== NO_LIMIT_S ? duration(spec.time_limit_s * 1000) : null],
    ['Attempts', spec.max_attempts > 1 ? `at most ${spec.max_attempts}` : null],
    [
      'Code',
      git ? <Git git={git} /> : run.snapshot_id ? <a href={runHref(run.id, { tab: 'code' })}>snapshot</a> : null,
    ],
    ['Created', exact(run.created_at)],
    ['Started', run.started_at ? exact(run.started_at) : null],
    ['Ended', run.ended_at ? exact(run.ended_at) : null],
    ['Submitted by', run.submitted_by],
  ];
  return (
    <Card title="Details">
      <dl class="facts overview-facts">
        {rows
          .filter(([, value]) => value !== null && value !== '' && value !== undefined)
          .map(([name, value]) => (
            <>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </>
          ))}
      </dl>
    </Card>
  );
}

function EnvironmentName({ run }: { run: Run }) {
  const { name, version, kind } = run.spec.environment;
  return (
    <>
      <a href={runHref(run.id, { tab: 'environment' })}>
        {name}
        {version ? `, version ${version}` : ''}
      </a>{' '}
      <span class="soft">{kind}</span>
    </>
  );
}

function Hosts({ hosts }: { hosts: Host[] }) {
  const last = Math.max(...hosts.map((one) => one.attempt));
  const mine = hosts.filter((one) => one.attempt === last);
  return (
    <>
      {mine
        .slice(0, MOST_HOSTS)
        .map((one) => `${one.host || one.address}${one.address && one.host ? ` (${one.address})` : ''}`)
        .join(', ')}
      {mine.length > MOST_HOSTS && ` and ${mine.length - MOST_HOSTS} more`}
    </>
  );
}

function Data({ run }: { run: Run }) {
  return (
    <ul class="plain-list">
      {Object.entries(run.spec.datasets).map(([key, given]) => {
        const one = record(given);
        const name = text(one.name);
        return (
          <li key={key}>
            {key}:{' '}
            {name ? (
              <a href={href(`/datasets/${namePart(name)}`, { version: text(one.version) })}>
                {name}, version {text(one.version)}
              </a>
            ) : (
              'a dataset without a name'
            )}{' '}
            <span class="soft">{text(one.mode)}</span>
          </li>
        );
      })}
      {Object.entries(run.spec.data_references).map(([key, given]) => {
        const one = record(given);
        return (
          <li key={key}>
            {key}: {text(one.datastore)}/{text(one.path)} <span class="soft">{text(one.mode)}</span>
          </li>
        );
      })}
      {Object.keys(run.spec.outputs ?? {}).map((key) => (
        <li key={`out ${key}`}>
          {key} <span class="soft">output</span>
        </li>
      ))}
    </ul>
  );
}

function Git({ git }: { git: GitFacts }) {
  const short = git.commit.slice(0, 10);
  return (
    <>
      {git.href ? (
        <a href={git.href} target="_blank" rel="noopener noreferrer">
          <code>{short || git.repository}</code>
        </a>
      ) : (
        <code>{short || git.repository}</code>
      )}
      {git.branch && ` on ${git.branch}`}
      {git.isDirty && <span class="soft">, with changes that were not committed</span>}
    </>
  );
}

const hasAny = (...all: Record<string, unknown>[]): boolean => all.some((one) => Object.keys(one ?? {}).length > 0);
