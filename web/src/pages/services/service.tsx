// One service: how it is, then its tabs.
import { getJson, part, sendJson } from '../../api/http';
import { useLive, useWatch } from '../../api/live';
import type { ServiceDescription, Webservice } from '../../api/services';
import type { Run } from '../../api/types';
import { useKeys } from '../../lib/keys';
import { go, href, query, runHref, workspace } from '../../lib/router';
import { useResource } from '../../lib/useResource';
import { AssetHead, inWorkspace, NoSuch, Shown, Tags } from '../../parts/assets/layout';
import { Lasting, Status, Tabs, When } from '../../parts/basics';
import { ask, attempt, note } from '../../parts/overlays';
import { Prose } from '../../parts/prose';
import { servingOf, troubleOf, type Trouble } from '../../parts/services/facts';
import { ServiceState } from '../../parts/services/state';
import { Document } from './document';
import { Overview } from './overview';
import { replicaRuns } from './replicas';
import { Requests } from './requests';
import { apiOf, type TabProps } from './tab';
import { TryIt } from './tryit';

const EVERY_MS = 3_000; // workers come and go without a change of a run
const TABS = [
  { id: 'overview', label: 'Overview', Tab: Overview },
  { id: 'try', label: 'Try it', Tab: TryIt },
  { id: 'requests', label: 'Requests', Tab: Requests },
  { id: 'api', label: 'API', Tab: Document },
] as const;

export function Service({ name }: { name: string }) {
  const resource = useLive(
    workspace.value,
    useResource<Webservice>(
      (signal) => getJson(inWorkspace(`/services/${part(name)}`), {}, signal),
      [workspace.value, name],
    ),
    EVERY_MS,
  );
  const isBadName = resource.error?.status === 400 && !resource.value;
  if (resource.error?.status === 404 || isBadName)
    return <NoSuch place="/services" what="Service" name={name} command="runyard services list" />;
  return (
    <Shown resource={resource} what="the service">
      {(service) => <Found service={service} again={resource.again} />}
    </Shown>
  );
}

function Found({ service, again }: Omit<TabProps, 'description'>) {
  const serving = servingOf(service);
  const description = useResource<ServiceDescription>(
    async (signal) =>
      serving ? getJson(`${apiOf(service)}/openapi`, {}, signal) : { document: null, sample: undefined },
    [service.id, serving?.number, serving ? serving.workers > 0 : false],
  );
  const wanted = query.value.get('tab');
  const tab = TABS.find((one) => one.id === wanted) ?? TABS[0];
  const hrefOf = (id: string): string =>
    href(`/services/${part(service.name)}`, { tab: id === 'overview' ? null : id });
  useKeys(Object.fromEntries(TABS.map((one, index) => [String(index + 1), () => go(hrefOf(one.id))])));
  const trouble = troubleOf(service);
  return (
    <>
      <Head service={service} />
      {trouble && <Diagnosis service={service} trouble={trouble} />}
      <UnderWay service={service} />
      <Tabs selected={tab.id} tabs={TABS.map(({ id, label }) => ({ id, label, href: hrefOf(id) }))} />
      <section class="stack service-tab" aria-label={tab.label}>
        <tab.Tab key={tab.id} service={service} description={description} again={again} />
      </section>
    </>
  );
}

function Head({ service }: { service: Webservice }) {
  const serving = servingOf(service);
  const remove = async (): Promise<void> => {
    const text = (
      <>
        Requests that are under way are answered, later ones get 404. Its keys are gone for good; its run and what it
        logged stay, and the models too.
      </>
    );
    const title = `Delete the service ${service.name}?`;
    if ((await ask({ title, text, label: 'Delete the service', isDanger: true })) === null) return;
    if (await attempt(() => sendJson('DELETE', apiOf(service)))) {
      go(href('/services'));
      note(`The service ${service.name} was deleted.`);
    }
  };
  return (
    <div class="service-head">
      <AssetHead place="/services" title="Services" name={service.name}>
        <ServiceState state={service.state} pill />
        {serving && <span class="soft number">revision {serving.number}</span>}
        <span class="soft">
          changed <When time={service.updated_at} />
        </span>
        <Tags tags={service.settings.tags} />
      </AssetHead>
      <div class="row">
        <a class="button" href={runHref(service.run_id)}>
          Run page
        </a>
        <button type="button" class="button danger" onClick={() => void remove()}>
          Delete
        </button>
      </div>
    </div>
  );
}

/** The cause first, then the traceback, then what goes on to answer. */
function Diagnosis({ service, trouble }: { service: Webservice; trouble: Trouble }) {
  const runs = useResource((signal) => replicaRuns(service, signal), [service.run_id, trouble.revision]);
  const failed = runs.value?.find((run) => run.properties['runyard.revision'] === String(trouble.revision));
  return (
    <section class="service-fault" aria-label="Why it does not work">
      <div class="row">
        <h2>{trouble.title}</h2>
        {trouble.code && <code class="small">{trouble.code}</code>}
      </div>
      <p class="service-cause">
        <Prose text={trouble.cause} />
      </p>
      {trouble.lines.length > 0 && (
        <pre class="service-lines" role="group" tabIndex={0} aria-label="The end of its log">
          {trouble.lines.join('\n')}
        </pre>
      )}
      <p class="row small">
        {trouble.still && <strong>{trouble.still}</strong>}
        {failed && <a href={runHref(failed.id, { tab: 'log' })}>The whole log of its last replica</a>}
        {!servingOf(service) && <span class="soft">Mend the script and deploy it again over this one.</span>}
      </p>
    </section>
  );
}

/** A revision is starting: since when, and what its replica waits for. */
function UnderWay({ service }: { service: Webservice }) {
  const operation = service.operation;
  if (operation?.state !== 'Running') return null;
  const revision = service.revisions.find((one) => one.number === operation.revision);
  const replica = revision?.replicas.filter((one) => one.is_wanted).at(-1);
  return (
    <p class="service-under-way" role="status">
      <span class="spinner" aria-hidden="true" />
      <span>
        {operation.kind === 'Rollback' ? 'Rolling back to revision' : 'Starting revision'} {operation.revision}, for{' '}
        <Lasting since={operation.started_at} until={null} />
      </span>
      {replica && <Waiting runId={replica.run_id} />}
      {(revision?.failed_starts ?? 0) > 0 && <span class="soft">{revision?.failed_starts} starts failed so far</span>}
    </p>
  );
}

function Waiting({ runId }: { runId: string }) {
  const run = useResource<Run>((signal) => getJson(`/runs/${part(runId)}`, {}, signal), [runId]);
  useWatch([runId], ['status'], run.again, 300);
  if (!run.value) return null;
  return (
    <span class="row">
      <Status status={run.value.status} />
      {run.value.status === 'Running' ? (
        <span class="soft">loading the model</span>
      ) : (
        run.value.waits_for && (
          <span class="soft">
            <Prose text={run.value.waits_for} />
          </span>
        )
      )}
      <a href={runHref(runId, { tab: 'log' })}>Its log</a>
    </span>
  );
}
