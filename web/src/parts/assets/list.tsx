// A list of models, datasets, environments or compute targets: one table, narrowed by the text in the head's box.
import type { ComponentChildren } from 'preact';
import { namePart } from '../../api/http';
import type { Resource } from '../../lib/useResource';
import { href } from '../../lib/router';
import { ListHead, NothingFits, Shown, sought } from './layout';
import { fits } from './shape';

export interface Column<T> {
  head: string;
  cell: (one: T) => ComponentChildren;
  /** `wide`: left out on narrow screens. */
  class?: string;
  title?: (one: T) => string;
}

export interface AssetListProps<T> {
  title: string;
  /** The singular noun for an entry: `model`. */
  what: string;
  place: string;
  resource: Resource<unknown>;
  all: readonly T[] | undefined;
  nameOf: (one: T) => string;
  /** Texts that the search box looks through, beside the name. */
  words: (one: T) => readonly (string | null | undefined)[];
  mark?: (one: T) => ComponentChildren;
  columns: readonly Column<T>[];
  empty?: ComponentChildren;
}

export function AssetList<T>({
  title,
  what,
  place,
  resource,
  all,
  nameOf,
  words,
  mark,
  columns,
  empty,
}: AssetListProps<T>) {
  const shown = all?.filter((one) => fits(sought(), nameOf(one), ...words(one)));
  return (
    <>
      <ListHead title={title} count={all?.length} />
      <Shown resource={resource} what={`${what}s`}>
        {() =>
          !all?.length ? (
            empty
          ) : !shown?.length ? (
            <NothingFits what={what} />
          ) : (
            <div class="card scroll-x">
              <table class="plain-table asset-list">
                <thead>
                  <tr>
                    <th>{what.replace(/^./, (letter) => letter.toUpperCase())}</th>
                    {columns.map((column) => (
                      <th key={column.head} class={headClass(column.class)}>
                        {column.head}
                      </th>
                    ))}
                  </tr>
                </thead>
                <tbody>
                  {shown.map((one) => (
                    <tr key={nameOf(one)}>
                      <td>
                        <a href={href(`${place}/${namePart(nameOf(one))}`)}>{nameOf(one)}</a>
                        {mark?.(one)}
                      </td>
                      {columns.map((column) => (
                        <td key={column.head} class={column.class} title={column.title?.(one)}>
                          {column.cell(one)}
                        </td>
                      ))}
                    </tr>
                  ))}
                </tbody>
              </table>
            </div>
          )
        }
      </Shown>
    </>
  );
}

/** A column's head has the column's alignment and is hidden with it; nothing else of its class. */
const headClass = (text = ''): string =>
  text
    .split(' ')
    .filter((word) => word === 'number' || word === 'wide')
    .join(' ');
