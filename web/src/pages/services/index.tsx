// Web services: the list, and one service with its revisions, replicas, figures, and a way to call it.
import { getJson, sendJson } from '../../api/http';
import { useLive } from '../../api/live';
import type { Webservice } from '../../api/services';
import type { MetricSummaries, Summaries } from '../../api/types';
import { number } from '../../lib/format';
import { workspace, type PageProps } from '../../lib/router';
import { useResource } from '../../lib/useResource';
import { inWorkspace } from '../../parts/assets/layout';
import { AssetList, type Column } from '../../parts/assets/list';
import { Copy, Empty, When } from '../../parts/basics';
import { requestRate, servingOf, troubleOf, workersOf } from '../../parts/services/facts';
import { ServiceState } from '../../parts/services/state';
import { Models } from './models';
import { Service } from './service';
import './services.css';

const EVERY_MS = 5_000; // workers come and go without a change of a run

export default function Services({ name }: PageProps) {
  return <div class="page">{name ? <Service name={name} /> : <List />}</div>;
}

interface Listed {
  service: Webservice;
  /** Requests a second; null while no worker is there. */
  rate: number | null;
}

async function readAll(signal: AbortSignal): Promise<Listed[]> {
  const services = await getJson<Webservice[]>(inWorkspace('/services'), {}, signal);
  const live = services.filter(workersOf).map((one) => one.run_id);
  const metrics: Summaries = live.length
    ? (await sendJson<MetricSummaries>('POST', '/metrics/summary', { runs: live }, signal)).metrics
    : {};
  return services.map((service) => ({
    service,
    rate: workersOf(service) ? requestRate(metrics, service.run_id) : null,
  }));
}

function List() {
  const resource = useLive(workspace.value, useResource(readAll, [workspace.value]), EVERY_MS);
  return (
    <AssetList
      title="Services"
      what="service"
      place="/services"
      resource={resource}
      all={resource.value}
      nameOf={({ service }) => service.name}
      words={({ service: { settings, state, revisions } }) => [
        state,
        settings.description,
        ...revisions.flatMap((one) => one.spec.models),
        ...Object.entries(settings.tags).flat(),
      ]}
      columns={COLUMNS}
      empty={
        <Empty title="No services yet" command="runyard deploy MODEL --entry score.py">
          A service answers requests with a registered model.
        </Empty>
      }
    />
  );
}

const COLUMNS: Column<Listed>[] = [
  {
    head: 'State',
    cell: ({ service }) => {
      const trouble = troubleOf(service);
      return (
        <>
          <ServiceState state={service.state} />
          {trouble && <div class="small soft service-cause">{trouble.cause}</div>}
        </>
      );
    },
  },
  {
    head: 'Revision',
    class: 'number wide',
    cell: ({ service }) => servingOf(service)?.number ?? <span class="faint">–</span>,
    title: ({ service }) => `of ${service.revisions.length}`,
  },
  {
    head: 'Models',
    class: 'wide',
    cell: ({ service }) => <Models names={(servingOf(service) ?? service.revisions.at(-1))?.spec.models ?? []} />,
  },
  {
    head: 'Requests a second',
    class: 'number wide',
    cell: ({ rate }) => (rate === null ? <span class="faint">–</span> : number(Math.round(rate * 10) / 10)),
    title: () => 'In the last ten seconds of which the server knows',
  },
  {
    head: 'Address',
    class: 'wide service-address',
    cell: ({ service }) => (
      <>
        <code>{service.scoring_uri}</code> <Copy text={service.scoring_uri} />
      </>
    ),
  },
  { head: 'Changed', class: 'soft', cell: ({ service }) => <When time={service.updated_at} /> },
];
