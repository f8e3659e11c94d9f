// Models: what is registered, in versions; their files, and the run that each came from.
import { API, getJson, namePart, pathOf } from '../../api/http';
import { useWorkspaceWatch } from '../../api/live';
import { bytes } from '../../lib/format';
import { Copy, Empty, When } from '../../parts/basics';
import { useResource } from '../../lib/useResource';
import { href, query, workspace } from '../../lib/router';
import type { PageProps } from '../../lib/router';
import { AssetList, type Column } from '../../parts/assets/list';
import {
  AssetHead,
  Fact,
  inWorkspace,
  NoSuch,
  RunLink,
  Section,
  Shown,
  Tags,
  Versions,
  versionsText,
} from '../../parts/assets/layout';
import { chosen, newestOfEach } from '../../parts/assets/shape';
import { servedVersions } from '../../parts/services/facts';
import { ServiceState } from '../../parts/services/state';
import type { ModelVersion } from '../../api/assets';
import type { Webservice } from '../../api/services';

export default function Models({ name }: PageProps) {
  return <div class="page">{name ? <Model name={name} /> : <List />}</div>;
}

const sizeOf = (model: ModelVersion): number => model.spec.files.reduce((sum, file) => sum + file.size, 0);
const frameworkOf = ({ spec }: ModelVersion): string =>
  spec.framework === 'Custom' && !spec.framework_version ? '' : `${spec.framework} ${spec.framework_version}`.trim();

function List() {
  const resource = useResource(
    (signal) => getJson<ModelVersion[]>(inWorkspace('/models'), {}, signal),
    [workspace.value],
  );
  return (
    <AssetList
      title="Models"
      what="model"
      place="/models"
      resource={resource}
      all={resource.value && newestOfEach(resource.value)}
      nameOf={({ newest }) => newest.name}
      words={({ newest: { spec } }) => [
        spec.description,
        spec.framework,
        spec.experiment,
        ...Object.entries(spec.tags).flat(),
      ]}
      columns={COLUMNS}
      empty={
        <Empty title="No models yet" command="run.register_model('my-model', 'outputs/model.pkl')">
          A script, or a notebook, registers what a run left in its outputs.
        </Empty>
      }
    />
  );
}

const COLUMNS: Column<{ newest: ModelVersion; count: number }>[] = [
  { head: 'Version', class: 'number', cell: ({ newest }) => newest.version, title: ({ count }) => versionsText(count) },
  { head: 'Framework', class: 'wide soft', cell: ({ newest }) => frameworkOf(newest) },
  { head: 'Size', class: 'number soft', cell: ({ newest }) => bytes(sizeOf(newest)) },
  { head: 'Tags', class: 'wide', cell: ({ newest }) => <Tags tags={newest.spec.tags} /> },
  { head: 'From run', class: 'wide', cell: ({ newest }) => newest.spec.run_id && <RunLink id={newest.spec.run_id} /> },
  { head: 'Registered', class: 'soft', cell: ({ newest }) => <When time={newest.created_at} /> },
];

function Model({ name }: { name: string }) {
  const resource = useResource(
    (signal) => getJson<ModelVersion[]>(inWorkspace('/models'), { name }, signal),
    [workspace.value, name],
  );
  const model = chosen(resource.value ?? [], query.value.get('version'));
  return (
    <>
      <AssetHead place="/models" title="Models" name={name}>
        {model && <span class="soft number">version {model.version}</span>}
        {model && <Tags tags={model.spec.tags} />}
      </AssetHead>
      <Shown resource={resource} what="the model">
        {(versions) =>
          model ? (
            <div class="asset-columns">
              <div class="stack">
                <Facts model={model} />
                <Files model={model} />
              </div>
              <div class="stack">
                <Versions place="/models" name={name} versions={versions} shown={model.version} />
                <ServedBy model={model} />
              </div>
            </div>
          ) : (
            <NoSuch place="/models" what="Model" name={name} command="runyard models list" />
          )
        }
      </Shown>
    </>
  );
}

function Facts({ model }: { model: ModelVersion }) {
  const { spec } = model;
  const properties = Object.entries(spec.properties);
  return (
    <Section
      title="About"
      aside={<Copy text={`runyard models download ${model.name}:${model.version}`} label="Copy download command" />}
    >
      <dl class="facts">
        <Fact name="Description">{spec.description}</Fact>
        <Fact name="Framework">{frameworkOf(model)}</Fact>
        <Fact name="From run">
          {spec.run_id ? <RunLink id={spec.run_id} /> : <span class="soft">uploaded, not by a run</span>}
        </Fact>
        {spec.experiment && (
          <Fact name="Experiment">
            <a href={href('/runs', { experiment: spec.experiment })}>{spec.experiment}</a>
          </Fact>
        )}
        <Fact name="Registered">
          <When time={model.created_at} />
          {spec.created_by && <span class="soft"> by {spec.created_by}</span>}
        </Fact>
        {spec.datasets.map(([purpose, id]) => (
          <Fact key={id} name={`Dataset (${purpose})`} isCode>
            {id}
          </Fact>
        ))}
        {properties.map(([key, value]) => (
          <Fact key={key} name={key}>
            {value}
          </Fact>
        ))}
      </dl>
    </Section>
  );
}

/** The services that answer requests with one of its versions. */
function ServedBy({ model }: { model: ModelVersion }) {
  const resource = useResource(
    (signal) => getJson<Webservice[]>(inWorkspace('/services'), {}, signal),
    [workspace.value],
  );
  useWorkspaceWatch(workspace.value, resource.again, 2_000);
  return (
    <Section title="Served by">
      <Shown resource={resource} what="services">
        {(services) => {
          const found = services
            .map((service) => ({ service, versions: servedVersions(service, model.name) }))
            .filter(({ versions }) => versions.length);
          if (!found.length)
            return (
              <p class="asset-none small soft">
                No service. <code>runyard deploy {model.name} --entry score.py</code> makes one.
              </p>
            );
          return (
            <ul class="versions">
              {found.map(({ service, versions }) => (
                <li key={service.id}>
                  <a href={href(`/services/${namePart(service.name)}`)}>
                    <span>
                      {service.name}
                      <span class="soft small">
                        {' '}
                        version {versions.join(', ')}
                        {versions.includes(String(model.version)) ? '' : ', not this one'}
                      </span>
                    </span>
                    <ServiceState state={service.state} />
                  </a>
                </li>
              ))}
            </ul>
          );
        }}
      </Shown>
    </Section>
  );
}

function Files({ model }: { model: ModelVersion }) {
  const { files } = model.spec;
  const folder = `${API}${inWorkspace(`/models/${namePart(model.name)}/${model.version}/files`)}`;
  return (
    <Section title="Files" count={files.length} aside={bytes(sizeOf(model))}>
      <table class="plain-table">
        <thead>
          <tr>
            <th>File</th>
            <th class="number">Size</th>
            <th class="wide">SHA-256</th>
            <th>
              <span class="hidden-text">Download</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={file.name}>
              <td class="mono">{file.name}</td>
              <td class="number soft">{bytes(file.size)}</td>
              <td class="wide mono faint" title={file.sha256 ?? ''}>
                {file.sha256?.slice(0, 12)}
              </td>
              <td class="number">
                <a
                  class="button small"
                  href={`${folder}/${pathOf(file.name)}`}
                  download
                  aria-label={`Download ${file.name}`}
                >
                  Download
                </a>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Section>
  );
}
