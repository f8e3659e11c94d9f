// One run: its header, then its tabs.
import type { ComponentType } from 'preact';
import { useLayoutEffect, useState } from 'preact/hooks';
import { ApiError, getJson, part } from '../../api/http';
import { useWatch } from '../../api/live';
import { hasEnded, type Run } from '../../api/types';
import { useTitle } from '../../lib/browser';
import type { PageProps } from '../../lib/router';
import { useKeys } from '../../lib/keys';
import { Command, Empty, Fault, Loading, Status, statusWord, Tabs } from '../../parts/basics';
import { asApiError, useResource } from '../../lib/useResource';
import { go, href, query, runHref } from '../../lib/router';
import { Banner, Diagnosis } from './diagnosis';
import { diagnosisOf } from './facts';
import { Follow } from './follow';
import { Header } from './header';
import { KeyHelp } from './keyhelp';
import { Prose } from '../../parts/prose';
import type { TabProps } from './tab';
import './run.css';

type Tab = ComponentType<TabProps>;

/** The reason why a run waits depends on other runs, so it changes with them. */
const WAITING: ReadonlySet<string> = new Set(['NotStarted', 'Queued']);

const TABS: readonly { id: string; label: string; load: () => Promise<{ default: Tab }> }[] = [
  { id: 'overview', label: 'Overview', load: () => import('./overview') },
  { id: 'metrics', label: 'Metrics', load: () => import('./metrics') },
  { id: 'log', label: 'Log', load: () => import('./log') },
  { id: 'files', label: 'Files', load: () => import('./files') },
  { id: 'code', label: 'Code', load: () => import('./code') },
  { id: 'environment', label: 'Environment', load: () => import('./environment') },
  { id: 'children', label: 'Children', load: () => import('./children') },
];

export default function Page({ name }: PageProps) {
  const resource = useResource((signal) => getJson<Run>(`/runs/${part(name)}`, {}, signal), [name]);
  const run = resource.value;
  useWatch([name], ['status', 'tags'], resource.again, 300);
  useTitle(run ? `${mark(run)}${run.display_name || run.id}` : name);

  if (!run) {
    if (resource.error)
      return (
        <div class="page">
          <Missing name={name} error={resource.error} again={resource.again} />
        </div>
      );
    return <Loading what="Reading the run" />;
  }
  return <Shown run={run} again={resource.again} error={resource.error} />;
}

function Shown({ run, again, error }: TabProps & { error: ApiError | undefined }) {
  const [isHelpOpen, setHelpOpen] = useState(false);
  const wanted = query.value.get('tab');
  const tab = TABS.find((one) => one.id === wanted) ?? TABS[0]!;
  const hrefOf = (id: string): string => runHref(run.id, { tab: id === 'overview' ? null : id });
  useKeys({
    ...Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => go(hrefOf(one.id))])),
    '?': () => setHelpOpen(true),
  });
  const found = diagnosisOf(run);
  return (
    <div class="page run-page">
      <Header run={run} again={again} />
      {error && error.status !== 404 && <Fault error={error} again={again} />}
      {error?.status === 404 && (
        <Fault
          error={
            new ApiError(
              404,
              error.code,
              'This run was deleted.',
              '',
              `\`runyard runs restore ${run.id}\` brings it back for a while.`,
            )
          }
        />
      )}
      {WAITING.has(run.status) && <Follow workspace={run.workspace} act={again} />}
      {!hasEnded(run.status) && run.waits_for && (
        <p class="run-waits" role="status">
          <Status status={run.status} />{' '}
          <span>
            <Prose text={run.waits_for} />
          </span>
        </p>
      )}
      {found && (tab.id === 'overview' ? <Diagnosis run={run} found={found} /> : <Banner run={run} found={found} />)}
      <Tabs selected={tab.id} tabs={TABS.map((one) => ({ id: one.id, label: one.label, href: hrefOf(one.id) }))} />
      <section class="run-tab" aria-label={tab.label}>
        <Loaded key={tab.id} load={tab.load} run={run} again={again} />
      </section>
      {isHelpOpen && <KeyHelp tabs={TABS.map((one) => one.label)} close={() => setHelpOpen(false)} />}
    </div>
  );
}

function Loaded({ load, run, again }: TabProps & { load: () => Promise<{ default: Tab }> }) {
  const [found, setFound] = useState<{ Tab: Tab } | { error: unknown }>();
  useLayoutEffect(() => {
    let isWanted = true;
    load().then(
      (module) => isWanted && setFound({ Tab: module.default }),
      (error: unknown) => isWanted && setFound({ error }),
    );
    return () => {
      isWanted = false;
    };
  }, [load]);
  if (!found) return <Loading />;
  if ('error' in found) return <Fault error={asApiError(found.error)} again={() => location.reload()} />;
  return <found.Tab run={run} again={again} />;
}

function Missing({ name, error, again }: { name: string; error: ApiError; again: () => void }) {
  if (error.status !== 404 && error.status !== 400) return <Fault error={error} again={again} />;
  return (
    <Empty title="There is no such run">
      This server has no run <code>{name}</code>. It may have been deleted, or be on another server.{' '}
      <a href={href('/runs')}>All runs</a>
      <br />
      <Command text={error.status === 404 ? `runyard runs restore ${name}` : 'runyard runs list'} />
    </Empty>
  );
}

/** The first sign of the browser tab's title: the status. */
const mark = (run: Run): string =>
  run.status === 'Completed'
    ? '✓ '
    : run.status === 'Failed'
      ? '✗ '
      : hasEnded(run.status)
        ? ''
        : `${statusWord(run.status)}: `;
