// Datasets: what is registered, in versions; where the data lies, its files, and which runs read it.
import { API, getJson, part, pathOf } from '../../api/http';
import type { Run } from '../../api/types';
import { bytes, plural } from '../../lib/format';
import { Empty, When } from '../../parts/basics';
import { useResource } from '../../lib/useResource';
import { query, workspace } from '../../lib/router';
import type { PageProps } from '../../lib/router';
import { AssetList, type Column } from '../../parts/assets/list';
import {
  AssetHead,
  Fact,
  inWorkspace,
  NoSuch,
  Section,
  Shown,
  Tags,
  UsedBy,
  Versions,
  versionsText,
} from '../../parts/assets/layout';
import { chosen, isPattern, sourceText, stepText } from '../../parts/assets/shape';
import type { DatasetAsset, DataSource } from '../../api/assets';

const MOST_FILES = 200;

export default function Datasets({ name }: PageProps) {
  return <div class="page">{name ? <Dataset name={name} /> : <List />}</div>;
}

const assets = (signal: AbortSignal, name?: string): Promise<DatasetAsset[]> =>
  getJson(inWorkspace('/assets/dataset'), { name }, signal);
const sourcesOf = ({ document: { spec } }: DatasetAsset): DataSource[] => spec?.sources ?? [];

function List() {
  const resource = useResource((signal) => assets(signal), [workspace.value]);
  return (
    <AssetList
      title="Datasets"
      what="dataset"
      place="/datasets"
      resource={resource}
      all={resource.value}
      nameOf={(one) => one.name}
      words={(one) => [
        one.document.description,
        ...sourcesOf(one).map(sourceText),
        ...Object.entries(one.document.tags ?? {}).flat(),
      ]}
      columns={COLUMNS}
      empty={
        <Empty
          title="No datasets yet"
          command="Dataset.File.from_files((datastore, 'data/**')).register(ws, 'my-data')"
        >
          A dataset names files of a datastore; runs that read it say so.
        </Empty>
      }
    />
  );
}

const COLUMNS: Column<DatasetAsset>[] = [
  { head: 'Version', class: 'number', cell: (one) => one.version, title: (one) => versionsText(one.version) },
  { head: 'Kind', class: 'wide soft', cell: (one) => one.document.spec?.kind },
  {
    head: 'Data',
    class: 'wide mono small',
    cell: (one) => sourcesOf(one).slice(0, 2).map(sourceText).join(', ') + (sourcesOf(one).length > 2 ? ' …' : ''),
  },
  { head: 'Tags', class: 'wide', cell: (one) => <Tags tags={one.document.tags} /> },
  { head: 'Registered', class: 'soft', cell: (one) => <When time={one.created_at} /> },
];

function Dataset({ name }: { name: string }) {
  const resource = useResource((signal) => assets(signal, name), [workspace.value, name]);
  const dataset = chosen(resource.value ?? [], query.value.get('version'));
  return (
    <>
      <AssetHead place="/datasets" title="Datasets" name={name}>
        {dataset && <span class="soft number">version {dataset.version}</span>}
        {dataset && <Tags tags={dataset.document.tags} />}
      </AssetHead>
      <Shown resource={resource} what="the dataset">
        {(versions) =>
          dataset ? (
            <div class="asset-columns">
              <div class="stack">
                <Facts dataset={dataset} />
                {sourcesOf(dataset).map((source) => (
                  <Source key={`${dataset.version} ${sourceText(source)}`} source={source} />
                ))}
                <UsedBy
                  use={(run) => howUsed(run, name)}
                  none="None of them read it. As an input: dataset.as_named_input('data').as_mount()"
                />
              </div>
              <div class="stack">
                <Versions place="/datasets" name={name} versions={versions} shown={dataset.version} />
              </div>
            </div>
          ) : (
            <NoSuch place="/datasets" what="Dataset" name={name} command="runyard datasets list" />
          )
        }
      </Shown>
    </>
  );
}

/** `version 2 as data (mount)`, or null. */
function howUsed(run: Run, name: string): string | null {
  const inputs = Object.entries(
    run.spec.datasets as Record<string, { name?: string; version?: number; mode?: string }>,
  );
  const found = inputs
    .filter(([, input]) => input.name === name)
    .map(([as, input]) => `version ${input.version} as ${as} (${input.mode})`);
  return found.length ? found.join(', ') : null;
}

function Facts({ dataset }: { dataset: DatasetAsset }) {
  const { spec, description } = dataset.document;
  return (
    <Section title="About">
      <dl class="facts">
        <Fact name="Description">{description}</Fact>
        <Fact name="Kind">{spec?.kind === 'tabular' ? 'table' : spec?.kind === 'file' ? 'files' : spec?.kind}</Fact>
        <Fact name="Id" isCode>
          {spec?.id}
        </Fact>
        <Fact name="Registered">
          <When time={dataset.created_at} />
        </Fact>
        <Fact name="Taken of it">{spec?.steps.map(stepText).join(', then ')}</Fact>
        <Fact
          name="In code"
          isCode
        >{`Dataset.get_by_name(ws, ${JSON.stringify(dataset.name)}, version=${dataset.version})`}</Fact>
      </dl>
    </Section>
  );
}

interface DataFile {
  name: string;
  size: number;
}

/** One place of the data; its files where the server may list them. */
function Source({ source }: { source: DataSource }) {
  const canList = !source.url && !isPattern(source);
  const place = inWorkspace(`/datastores/${part(source.datastore)}/files`);
  const resource = useResource<DataFile[] | null>(
    (signal) => (canList ? getJson(place, { path: source.path }, signal) : Promise.resolve(null)),
    [place, source.path],
  );
  const files = resource.value;
  const total = files?.reduce((sum, file) => sum + file.size, 0) ?? 0;
  return (
    <Section title={sourceText(source)} aside={files && `${plural(files.length, 'file')}, ${bytes(total)}`}>
      {source.url && <p class="asset-none soft">An address on the web: it is read when a run asks for it.</p>}
      {isPattern(source) && (
        <p class="asset-none soft">All files of datastore {source.datastore} that this pattern fits.</p>
      )}
      {canList && resource.error && (
        <p class="asset-none soft">{[resource.error.what, resource.error.why].filter(Boolean).join(' ')}</p>
      )}
      {files?.length === 0 && <p class="asset-none soft">No file is there.</p>}
      {!!files?.length && (
        <table class="plain-table">
          <tbody>
            {files.slice(0, MOST_FILES).map((file) => (
              <tr key={file.name}>
                <td class="mono">
                  <a href={`${API}${place}/${pathOf(file.name)}`} download>
                    {file.name}
                  </a>
                </td>
                <td class="number soft">{bytes(file.size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      {(files?.length ?? 0) > MOST_FILES && (
        <p class="asset-none soft small">And {plural(files!.length - MOST_FILES, 'more file')}.</p>
      )}
    </Section>
  );
}
