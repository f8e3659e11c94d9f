// The run's environment: interpreter, exact packages, variables, image, machines, data; and the differences to another run.
import { useMemo, useState } from 'preact/hooks';
import { API, getJson, namePart, part, pathOf } from '../../../api/http';
import type { Run, RunFile } from '../../../api/types';
import { hasEnded } from '../../../api/types';
import { plural } from '../../../lib/format';
import { Empty, Fault, Loading } from '../../../parts/basics';
import { Against, nameOf } from '../../../parts/diff/against';
import {
  commandOf,
  computeOf,
  dataOf,
  environmentOf,
  groupsOf,
  packagesOf,
  variablesOf,
} from '../../../parts/diff/facts';
import { changeOf, differing, type Difference, type Values } from '../../../parts/diff/values';
import { shownName } from '../../../parts/filetree/names';
import { useResource } from '../../../lib/useResource';
import { href, query, runHref } from '../../../lib/router';
import type { TabProps } from '../tab';
import '../../../parts/diff/diff.css';
import './environment.css';

const LOCK = 'system_logs/requirements.lock.txt';

export default function Environment({ run }: TabProps) {
  const against = query.value.get('against') ?? '';
  return (
    <section class="stack" aria-label="Environment">
      <div class="row">
        <Downloads run={run} />
        <span class="grow" />
        <Against run={run} against={against} tab="environment" />
      </div>
      {against ? <Comparison key={against} run={run} against={against} /> : <Facts run={run} />}
    </section>
  );
}

/** The lock that the builder made; without one, the exact versions as a requirements file. */
function Downloads({ run }: { run: Run }) {
  const files = useResource(
    (signal) => getJson<RunFile[]>(`/runs/${part(run.id)}/files`, {}, signal),
    [run.id, hasEnded(run.status)],
  );
  const packages = packagesOf(run);
  if (files.value?.some((file) => file.name === LOCK)) {
    return (
      <a class="button" href={`${API}/runs/${part(run.id)}/files/${pathOf(LOCK)}`} download>
        Download lock
      </a>
    );
  }
  if (Object.keys(packages).length === 0) return null;
  const save = (): void => {
    const lines = Object.entries(packages).map(([name, version]) => `${name}==${version}`);
    const link = document.createElement('a');
    link.href = URL.createObjectURL(
      new Blob([`# Exact packages of run ${run.id}\n${lines.join('\n')}\n`], { type: 'text/plain' }),
    );
    link.download = 'requirements.txt';
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  return (
    <button type="button" class="button" onClick={save}>
      Download requirements.txt
    </button>
  );
}

function Facts({ run }: { run: Run }) {
  return (
    <div class="environment-grid">
      <div class="stack">
        <Card
          title="Interpreter"
          values={environmentOf(run)}
          links={
            run.spec.environment.version
              ? {
                  environment: href(`/environments/${namePart(run.spec.environment.name)}`, {
                    version: run.spec.environment.version,
                  }),
                }
              : {}
          }
        />
        <Card title="Command" values={commandOf(run)} />
        <Card title="Compute" values={computeOf(run)} links={{ target: href(`/compute/${part(run.spec.target)}`) }} />
        <Card title="Variables" values={variablesOf(run)} empty="None were set for this run." />
        <Card title="Data" values={dataOf(run)} empty="No datasets or data references." />
        {run.spec.environment.container?.dockerfile && <Dockerfile text={run.spec.environment.container.dockerfile} />}
      </div>
      <Packages run={run} />
    </div>
  );
}

function Card({
  title,
  values,
  links = {},
  empty,
}: {
  title: string;
  values: Values;
  links?: Record<string, string>;
  empty?: string;
}) {
  const entries = Object.entries(values);
  if (entries.length === 0 && !empty) return null;
  return (
    <section class="card environment-card">
      <h2>{title}</h2>
      {entries.length === 0 ? (
        <p class="soft">{empty}</p>
      ) : (
        <dl class="facts">
          {entries.map(([name, value]) => (
            <>
              <dt key={name}>{shownName(name)}</dt>
              <dd class="mono">
                {Object.hasOwn(links, name) ? <a href={links[name]}>{shownName(value)}</a> : shownName(value)}
              </dd>
            </>
          ))}
        </dl>
      )}
    </section>
  );
}

const Dockerfile = ({ text }: { text: string }) => (
  <section class="card environment-card">
    <h2>Dockerfile</h2>
    <pre>{text}</pre>
  </section>
);

function Packages({ run }: { run: Run }) {
  const [filter, setFilter] = useState('');
  const all = useMemo(() => Object.entries(packagesOf(run)).sort(([one], [other]) => one.localeCompare(other)), [run]);
  const asked = [...run.spec.environment.conda_packages, ...run.spec.environment.pip_packages];
  const shown = all.filter(([name, version]) =>
    `${name} ${version}`.toLowerCase().includes(filter.trim().toLowerCase()),
  );
  return (
    <section class="card environment-card">
      <div class="row">
        <h2 class="grow">Packages {all.length > 0 && <span class="soft number">{all.length}</span>}</h2>
        {all.length > 0 && (
          <input
            class="input"
            type="search"
            placeholder="Search packages"
            aria-label="Search packages"
            value={filter}
            onInput={(event) => setFilter(event.currentTarget.value)}
          />
        )}
      </div>
      {asked.length > 0 && (
        <p class="small">
          <span class="soft">Asked for: </span>
          <span class="mono">{asked.join(', ')}</span>
        </p>
      )}
      {all.length === 0 ? (
        <p class="soft">
          {hasEnded(run.status)
            ? 'This run ended before its packages were listed.'
            : 'The exact packages are listed once the run has started.'}
        </p>
      ) : shown.length === 0 ? (
        <p class="soft">No package has that in its name.</p>
      ) : (
        <table class="plain-table environment-packages">
          <tbody>
            {shown.map(([name, version]) => (
              <tr key={name}>
                <td>{shownName(name)}</td>
                <td class="mono number">{shownName(version)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </section>
  );
}

function Comparison({ run, against }: { run: Run; against: string }) {
  const found = useResource((signal) => getJson<Run>(`/runs/${part(against)}`, {}, signal), [against]);
  if (!found.value)
    return found.error ? <Fault error={found.error} again={found.again} /> : <Loading what="Comparing" />;
  const other = found.value;
  const mine = groupsOf(run);
  const groups = groupsOf(other)
    .map((group, at) => ({ title: group.title, rows: differing([group.values, mine[at]?.values ?? {}]) }))
    .filter((group) => group.rows.length > 0);
  if (groups.length === 0)
    return (
      <Empty title="No difference">
        Both runs had the same parameters, packages, variables, data, code and machines.
      </Empty>
    );
  return (
    <div class="card scroll-x">
      <table class="plain-table environment-diff">
        <thead>
          <tr>
            <th>
              {plural(
                groups.reduce((sum, group) => sum + group.rows.length, 0),
                'difference',
              )}
            </th>
            <th>{nameOf(other)}</th>
            <th>{nameOf(run)} (this run)</th>
          </tr>
        </thead>
        {groups.map((group) => (
          <tbody key={group.title}>
            <tr class="environment-group">
              <th colSpan={3} scope="rowgroup">
                {group.title} <span class="faint number">{group.rows.length}</span>
              </th>
            </tr>
            {group.rows.map((row) => (
              <Row
                key={row.name}
                row={row}
                href={group.title === 'Code' ? runHref(run.id, { tab: 'code', against }) : undefined}
              />
            ))}
          </tbody>
        ))}
      </table>
    </div>
  );
}

function Row({ row, href }: { row: Difference; href: string | undefined }) {
  const [before, after] = row.values;
  const change = changeOf(before, after);
  return (
    <tr>
      <td>
        {href ? <a href={href}>{shownName(row.name)}</a> : shownName(row.name)}
        <span class="hidden-text"> {change}</span>
      </td>
      <td class={`mono${before === undefined ? '' : ' diff-removed'}`}>
        {before === undefined ? <span class="faint">–</span> : shownName(before)}
      </td>
      <td class={`mono${after === undefined ? '' : ' diff-added'}`}>
        {after === undefined ? <span class="faint">–</span> : shownName(after)}
      </td>
    </tr>
  );
}
