// Parts of the pages of models, datasets, environments and compute targets.
import type { ComponentChildren } from 'preact';
import { getJson, namePart, part } from '../../api/http';
import type { Run } from '../../api/types';
import { useTitle } from '../../lib/browser';
import { plural } from '../../lib/format';
import { Empty, Fault, Status, Tag, When } from '../basics';
import { useResource, type Resource } from '../../lib/useResource';
import { href, query, runHref, setQuery, workspace } from '../../lib/router';
import { newestFirst } from './shape';
import './assets.css';

export const inWorkspace = (rest: string): string => `/workspaces/${part(workspace.value)}${rest}`;

/** A list's head: its name, how many, and a box that narrows it; the text is in the address. */
export function ListHead({
  title,
  count,
  children,
}: {
  title: string;
  count: number | undefined;
  children?: ComponentChildren;
}) {
  useTitle(title);
  return (
    <header class="page-head">
      <h1>{title}</h1>
      {count !== undefined && <span class="faint number">{count}</span>}
      <span class="grow" />
      {children}
      {(count ?? 0) > 1 && (
        <input
          class="input asset-find"
          type="search"
          placeholder="Find by name or tag"
          aria-label={`Find ${title.toLowerCase()}`}
          value={sought()}
          onInput={(event) => setQuery({ find: event.currentTarget.value })}
        />
      )}
    </header>
  );
}

export const sought = (): string => query.value.get('find') ?? '';

/** A page's head: where it is, its name, its versions. */
export function AssetHead({
  place,
  title,
  name,
  children,
}: {
  place: string;
  title: string;
  name: string;
  children?: ComponentChildren;
}) {
  useTitle(`${name} · ${title}`);
  return (
    <header class="page-head">
      <nav class="crumbs" aria-label="Where this is">
        <a href={href(place)}>{title}</a>
        <span class="faint" aria-hidden="true">
          /
        </span>
      </nav>
      <h1 class="asset-name">{name}</h1>
      {children}
    </header>
  );
}

export function Versions({
  place,
  name,
  versions,
  shown,
}: {
  place: string;
  name: string;
  versions: readonly { version: number; created_at: string }[];
  shown: number | undefined;
}) {
  const newest = newestFirst(versions);
  return (
    <Section title="Versions" count={versions.length}>
      <ol class="versions">
        {newest.map((one, at) => (
          <li key={one.version}>
            <a
              href={href(`${place}/${namePart(name)}`, at === 0 ? {} : { version: one.version })}
              aria-current={one.version === shown ? 'page' : undefined}
            >
              <span class="number">
                <span class="hidden-text">Version </span>
                {one.version}
              </span>
              <span class="small soft">
                <When time={one.created_at} />
              </span>
            </a>
          </li>
        ))}
      </ol>
    </Section>
  );
}

export function Section({
  title,
  count,
  aside,
  children,
}: {
  title: string;
  count?: number | undefined;
  aside?: ComponentChildren;
  children: ComponentChildren;
}) {
  return (
    <section class="card asset-section" aria-label={title}>
      <h2 class="row">
        {title}
        {count !== undefined && <span class="faint number small">{count}</span>}
        <span class="grow" />
        {aside && <span class="small soft asset-aside">{aside}</span>}
      </h2>
      {children}
    </section>
  );
}

/** A line of `<dl class="facts">`; nothing where there is no value. */
export function Fact({ name, isCode, children }: { name: string; isCode?: boolean; children: ComponentChildren }) {
  if (!children) return null;
  return (
    <>
      <dt>{name}</dt>
      <dd class={isCode ? 'mono' : undefined}>{children}</dd>
    </>
  );
}

export function Tags({ tags }: { tags: Record<string, string> | undefined }) {
  const found = Object.entries(tags ?? {});
  if (!found.length) return null;
  return (
    <span class="row asset-tags">
      {found.map(([key, value]) => (
        <Tag key={key} name={key} value={value} />
      ))}
    </span>
  );
}

export const RunLink = ({ id }: { id: string }) => (
  <a class="mono run-link" href={runHref(id)} title={id}>
    {id}
  </a>
);

/** The value of a resource, or its error; the old value stays while it is read again, with the error above it. */
export function Shown<T>({
  resource,
  what,
  children,
}: {
  resource: Resource<T>;
  what: string;
  children: (value: T) => ComponentChildren;
}) {
  if (resource.value === undefined) {
    if (resource.error) return <Fault error={resource.error} again={resource.again} />;
    return (
      <div class="asset-skeleton" role="status">
        <span class="hidden-text">Reading {what}…</span>
        <i />
        <i />
        <i />
      </div>
    );
  }
  return (
    <>
      {resource.error && <Fault error={resource.error} again={resource.again} />}
      {children(resource.value)}
    </>
  );
}

const LOOKED_AT = 100;

/** Which of the last runs used it; `use` says how, or null. */
export function UsedBy({ use, none }: { use: (run: Run) => string | null; none: string }) {
  const read = (signal: AbortSignal): Promise<{ runs: Run[] }> =>
    getJson(inWorkspace('/runs'), { limit: LOOKED_AT, include_children: true, view: 'all' }, signal);
  const resource = useResource(read, [workspace.value]);
  return (
    <Section title="Used by" aside={`of the last ${LOOKED_AT} runs`}>
      <Shown resource={resource} what="runs">
        {({ runs }) => {
          const found = runs.map((run) => ({ run, how: use(run) })).filter((one) => one.how !== null);
          if (!found.length) return <p class="soft asset-none">{none}</p>;
          return (
            <table class="plain-table">
              <thead class="hidden-text">
                <tr>
                  <th>Run</th>
                  <th>Status</th>
                  <th>Created</th>
                </tr>
              </thead>
              <tbody>
                {found.map(({ run, how }) => (
                  <tr key={run.id}>
                    <td>
                      <RunLink id={run.id} />
                      <div class="soft small">{how}</div>
                    </td>
                    <td>
                      <Status status={run.status} />
                    </td>
                    <td class="soft wide">
                      <When time={run.created_at} />
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          );
        }}
      </Shown>
    </Section>
  );
}

/** No version of that number, or nothing of that name. */
export function NoSuch({ place, what, name, command }: { place: string; what: string; name: string; command: string }) {
  const version = query.value.get('version');
  return (
    <Empty
      title={version ? `${what} ${name} has no version ${version}` : `There is no ${what.toLowerCase()} ${name}`}
      command={command}
    >
      <a href={version ? href(`${place}/${namePart(name)}`) : href(place)}>
        {version ? 'The newest version' : `All ${what.toLowerCase()}s`}
      </a>
    </Empty>
  );
}

export const NothingFits = ({ what }: { what: string }) => (
  <p class="soft asset-none">
    No {what} fits <q>{sought()}</q>.{' '}
    <button type="button" class="button small" onClick={() => setQuery({ find: null })}>
      Show all
    </button>
  </p>
);

export const versionsText = (count: number): string => plural(count, 'version');
