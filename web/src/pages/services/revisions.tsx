// What a service served, serves and shall serve: its revisions, the newest first, with a way back to each.
import { sendJson } from '../../api/http';
import type { ServiceRevision, Webservice } from '../../api/services';
import { number, plural } from '../../lib/format';
import { href } from '../../lib/router';
import { Fact, Section } from '../../parts/assets/layout';
import { shownVariable } from '../../parts/assets/shape';
import { When } from '../../parts/basics';
import { ask, attempt, note } from '../../parts/overlays';
import { Prose } from '../../parts/prose';
import { causeOf, weightsOf } from '../../parts/services/facts';
import { ServiceState } from '../../parts/services/state';
import { Models } from './models';
import { apiOf } from './tab';

export function Revisions({ service, again }: { service: Webservice; again: () => void }) {
  const weights = weightsOf(service);
  const isBusy = service.operation?.state === 'Running';
  const rollBack = async (revision: ServiceRevision): Promise<void> => {
    const text =
      revision.state === 'Ready'
        ? 'It is warm and takes over the requests at once.'
        : 'It is started again, and takes over the requests when it is ready. What answers now goes on until then.';
    const title = `${wayBack(revision)} revision ${revision.number}?`;
    if ((await ask({ title, text, label: wayBack(revision) === 'Start again' ? 'Start again' : 'Roll back' })) === null)
      return;
    if (await attempt(() => sendJson('POST', `${apiOf(service)}/rollback`, { revision: revision.number }))) {
      note(`Revision ${revision.number} takes over when it is ready.`);
      again();
    }
  };
  return (
    <Section title="Revisions" count={service.revisions.length}>
      <div class="scroll-x">
        <table class="plain-table service-revisions">
          <thead>
            <tr>
              <th class="tight">Revision</th>
              <th>State</th>
              <th>Models</th>
              <th class="wide">Workers</th>
              <th class="wide">Deployed</th>
              <th>
                <span class="hidden-text">Roll back</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {[...service.revisions].reverse().map((one) => (
              <tr key={one.number}>
                <td class="tight">{one.number}</td>
                <td>
                  <ServiceState state={one.state} />
                  {weights.has(one.number) && (
                    <strong class="service-serves">
                      serves{weights.size > 1 ? ` ${number(weights.get(one.number))} %` : ''}
                    </strong>
                  )}
                  {one.spec.label && <div class="small soft">version {one.spec.label}</div>}
                  {one.retire_at && !weights.has(one.number) && <div class="small soft">kept warm for a way back</div>}
                  {one.error && (
                    <div class="small service-cause">
                      <Prose text={causeOf(one.error).cause} />
                    </div>
                  )}
                  <Details revision={one} />
                </td>
                <td>
                  <Models names={one.spec.models} />
                </td>
                <td class="wide soft">{one.workers ? `${one.busy} of ${one.workers} busy` : ''}</td>
                <td class="wide soft">
                  <When time={one.created_at} />
                  {one.spec.created_by && <div class="small">by {one.spec.created_by}</div>}
                </td>
                <td class="number">
                  {!weights.has(one.number) && (
                    <button
                      type="button"
                      class="button small"
                      disabled={isBusy}
                      aria-label={`${wayBack(one)} revision ${one.number}`}
                      onClick={() => void rollBack(one)}
                    >
                      {wayBack(one)}
                    </button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  );
}

/** A revision that failed never served: there is no way back to it. */
const wayBack = (revision: ServiceRevision): string => (revision.state === 'Failed' ? 'Start again' : 'Roll back to');

function Details({ revision: { number: at, spec } }: { revision: ServiceRevision }) {
  const variables = Object.entries(spec.variables);
  const { scaling } = spec;
  return (
    <details class="small service-details">
      <summary>
        {spec.entry || `no script: ${spec.no_code}`}
        <span class="hidden-text">, details of revision {at}</span>
      </summary>
      <dl class="facts">
        <Fact name="Environment">
          {spec.environment.name}
          {spec.environment.version ? `, version ${spec.environment.version}` : ''}
        </Fact>
        <Fact name="Target">
          <a href={href(`/compute/${encodeURIComponent(spec.target)}`)}>{spec.target}</a>
          {spec.gpus ? `, ${plural(spec.gpus, 'GPU')}` : ''}
        </Fact>
        <Fact name="Replicas">
          {scaling.is_on
            ? `${scaling.min_replicas} to ${scaling.max_replicas}, by load (${number(scaling.target_utilization)} %)`
            : scaling.replicas}
        </Fact>
        <Fact name="Workers">
          {spec.workers}
          {spec.threads > 1 ? `, each with ${spec.threads} threads` : ''}
        </Fact>
        <Fact name="Batching">{spec.batching}</Fact>
        <Fact name="Memory limit">{spec.memory_limit_mb ? `${number(spec.memory_limit_mb)} MB` : ''}</Fact>
        {variables.map(([name, value]) => (
          <Fact key={name} name={name} isCode>
            {shownVariable(name, value)}
          </Fact>
        ))}
      </dl>
    </details>
  );
}
