// Environments: those that are registered, and what is built on the server's machine.
import { getJson } from '../../api/http';
import { bytes, plural } from '../../lib/format';
import { Command, Copy, Empty, Tag, When } from '../../parts/basics';
import { useResource } from '../../lib/useResource';
import { query, workspace } from '../../lib/router';
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
  UsedBy,
  Versions,
} from '../../parts/assets/layout';
import { chosen, packagesOf, shownVariable, splitRequirement, withoutPassword } from '../../parts/assets/shape';
import type { BuiltFolder, Definition, EnvironmentAsset } from '../../api/assets';

const MOST_NAMED = 5;

export default function Environments({ name }: PageProps) {
  return <div class="page">{name ? <Environment name={name} /> : <List />}</div>;
}

const assets = (signal: AbortSignal, name?: string): Promise<EnvironmentAsset[]> =>
  getJson(inWorkspace('/assets/environment'), { name }, signal);
const definitionOf = (one: EnvironmentAsset): Definition => one.document.definition ?? {};
const isoOf = (seconds: number): string => new Date(seconds * 1000).toISOString();

function summary(one: EnvironmentAsset): string {
  const { conda, pip } = packagesOf(definitionOf(one));
  const all = [...conda, ...pip].map(withoutPassword);
  return all.length > MOST_NAMED
    ? `${all.slice(0, MOST_NAMED).join(', ')} and ${all.length - MOST_NAMED} more`
    : all.join(', ');
}

function List() {
  const resource = useResource((signal) => assets(signal), [workspace.value]);
  return (
    <>
      <AssetList
        title="Environments"
        what="environment"
        place="/environments"
        resource={resource}
        all={resource.value}
        nameOf={(one) => one.name}
        words={(one) => [summary(one), definitionOf(one).docker?.baseImage]}
        columns={COLUMNS}
        empty={
          <Empty
            title="No environment is registered"
            command="Environment.from_pip_requirements('my-env', 'requirements.txt').register(ws)"
          >
            A run can name its packages without registering them; what is built for runs is below.
          </Empty>
        }
      />
      <Built />
    </>
  );
}

const COLUMNS: Column<EnvironmentAsset>[] = [
  { head: 'Version', class: 'number', cell: (one) => one.version },
  { head: 'Python', class: 'wide soft', cell: (one) => packagesOf(definitionOf(one)).python },
  { head: 'Packages', class: 'soft', cell: summary },
  { head: 'Image', class: 'wide mono small', cell: (one) => imageOf(definitionOf(one)) },
  { head: 'Registered', class: 'wide soft', cell: (one) => <When time={one.created_at} /> },
];

const imageOf = ({ docker }: Definition): string =>
  docker?.baseDockerfile ? 'Dockerfile' : docker?.enabled === false ? '' : (docker?.baseImage ?? '');

function Built({ of }: { of?: string }) {
  const resource = useResource((signal) => getJson<BuiltFolder[]>('/environments', {}, signal), []);
  const found = resource.value?.filter((one) => of === undefined || one.name === of);
  const total = found?.reduce((sum, one) => sum + one.size_bytes, 0) ?? 0;
  return (
    <Section
      title="Built on the server’s machine"
      count={found?.length}
      aside={found?.length ? bytes(total) : undefined}
    >
      <Shown resource={resource} what="what is built">
        {() =>
          !found?.length ? (
            <p class="asset-none soft">
              {of
                ? 'It is not built yet: the first run that names it builds it, or'
                : 'Nothing yet: the first run that names packages builds one, or'}{' '}
              <code>runyard environments build</code>.
            </p>
          ) : (
            <>
              <div class="scroll-x">
                <table class="plain-table">
                  <thead>
                    <tr>
                      <th>Environment</th>
                      <th class="wide">Kind</th>
                      <th>Python</th>
                      <th class="wide">Asked for</th>
                      <th class="number">Size</th>
                      <th>Last used</th>
                      <th class="wide">In use by</th>
                    </tr>
                  </thead>
                  <tbody>
                    {found.map((one) => (
                      <tr key={one.key}>
                        <td>
                          {one.name || <span class="soft">without a name</span>}
                          <div class="mono faint small" title={one.path}>
                            {one.key.slice(0, 12)}
                            {!one.is_finished && <span class="soft"> · not finished</span>}
                          </div>
                        </td>
                        <td class="wide soft">{one.kind}</td>
                        <td class="soft">{one.python}</td>
                        <td class="wide">
                          <Requirements lines={one.requirements} />
                        </td>
                        <td class="number">{bytes(one.size_bytes)}</td>
                        <td class="soft">
                          <When time={isoOf(one.used_at)} />
                        </td>
                        <td class="wide">
                          {one.runs.map((id) => (
                            <div key={id}>
                              <RunLink id={id} />
                            </div>
                          ))}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
              </div>
              {of === undefined && (
                <div class="asset-body row small soft">
                  Frees what nobody has used for long: <Command text="runyard environments prune" />
                </div>
              )}
            </>
          )
        }
      </Shown>
    </Section>
  );
}

function Requirements({ lines }: { lines: string[] }) {
  if (lines.length <= 3) return <span class="soft">{lines.map(withoutPassword).join(', ')}</span>;
  return (
    <details>
      <summary class="soft">{plural(lines.length, 'requirement')}</summary>
      <ul class="small mono requirements">
        {lines.map((line) => (
          <li key={line}>{withoutPassword(line)}</li>
        ))}
      </ul>
    </details>
  );
}

function Environment({ name }: { name: string }) {
  const resource = useResource((signal) => assets(signal, name), [workspace.value, name]);
  const shown = chosen(resource.value ?? [], query.value.get('version'));
  return (
    <>
      <AssetHead place="/environments" title="Environments" name={name}>
        {shown && <span class="soft number">version {shown.version}</span>}
        {shown?.document.labels?.map((label) => (
          <Tag key={label} name={label} />
        ))}
      </AssetHead>
      <Shown resource={resource} what="the environment">
        {(versions) =>
          shown ? (
            <div class="asset-columns">
              <div class="stack">
                <Facts shown={shown} />
                <Packages definition={definitionOf(shown)} />
                <Variables definition={definitionOf(shown)} />
                {definitionOf(shown).docker?.baseDockerfile && (
                  <Section title="Dockerfile">
                    <pre class="dockerfile" tabIndex={0}>
                      {definitionOf(shown).docker?.baseDockerfile}
                    </pre>
                  </Section>
                )}
                <Built of={name} />
                <UsedBy
                  use={({ spec: { environment } }) =>
                    environment.name === name ? `version ${environment.version ?? '–'}` : null
                  }
                  none="None of them used it."
                />
              </div>
              <div class="stack">
                <Versions place="/environments" name={name} versions={versions} shown={shown.version} />
              </div>
            </div>
          ) : (
            <NoSuch place="/environments" what="Environment" name={name} command="runyard environments list" />
          )
        }
      </Shown>
    </>
  );
}

function Facts({ shown }: { shown: EnvironmentAsset }) {
  const definition = definitionOf(shown);
  const { python, channels } = packagesOf(definition);
  const isOwn = definition.python?.userManagedDependencies;
  const code = `Environment.get(ws, ${JSON.stringify(shown.name)}, version="${shown.version}")`;
  return (
    <Section title="About" aside={<Copy text={code} label="Copy code" />}>
      <dl class="facts">
        <Fact name={isOwn ? 'Interpreter' : 'Python'}>
          {python || 'the newest that fits'}
          {isOwn && <span class="soft"> · its packages are yours to install</span>}
        </Fact>
        <Fact name="Channels">{channels.map(withoutPassword).join(', ')}</Fact>
        <Fact name="Image" isCode>
          {definition.docker?.baseImage &&
            `${definition.docker.baseImage}${definition.docker.enabled === false ? ' (not used)' : ''}`}
        </Fact>
        <Fact name="Registered">
          <When time={shown.created_at} />
        </Fact>
        <Fact name="In code" isCode>
          {code}
        </Fact>
      </dl>
    </Section>
  );
}

function Packages({ definition }: { definition: Definition }) {
  const { conda, pip } = packagesOf(definition);
  return (
    <>
      {(
        [
          ['Conda packages', conda],
          ['Pip packages', pip],
        ] as const
      ).map(([title, lines]) =>
        lines.length ? (
          <Section key={title} title={title} count={lines.length}>
            <ul class="packages">
              {lines.map((line) => {
                const [package_, wanted] = splitRequirement(withoutPassword(line));
                return (
                  <li key={line}>
                    <span>{package_}</span>
                    <span class="mono soft">{wanted}</span>
                  </li>
                );
              })}
            </ul>
          </Section>
        ) : null,
      )}
      {!conda.length && !pip.length && (
        <Section title="Packages">
          <p class="asset-none soft">It names none.</p>
        </Section>
      )}
    </>
  );
}

function Variables({ definition }: { definition: Definition }) {
  const found = Object.entries(definition.environmentVariables ?? {});
  if (!found.length) return null;
  return (
    <Section title="Variables" count={found.length}>
      <dl class="facts mono">
        {found.map(([key, value]) => (
          <Fact key={key} name={key}>
            {shownVariable(key, value)}
          </Fact>
        ))}
      </dl>
    </Section>
  );
}
