// What an OpenAPI document (version 2 or 3) says of a service: its operations, and a body to try each with. Pure.
// The document comes from a script of a user: any part of it may be missing or something else.
import { sampleText } from '../../parts/services/facts';

export interface Operation {
  method: string;
  /** Below the service's own address: `score`, `v2/models/NAME/infer`. */
  path: string;
  summary: string;
  /** The kind of the body; '' when it takes none. */
  contentType: string;
  /** A body as text; '' when it takes none. */
  sample: string;
}

type Table = Record<string, unknown>;
type Doc = Table;

const METHODS = ['post', 'get', 'put', 'patch', 'delete', 'options'] as const;
const DEEPEST = 12; // schemas may refer to themselves

/** The operation of a service that says nothing of itself. */
export const scoring = (sample: unknown): Operation => ({
  method: 'POST',
  path: 'score',
  summary: 'Answers with the model.',
  contentType: 'application/json',
  sample: sampleText(sample, 2),
});

/** The operations, scoring first; `sample` is the server's own body for that. */
export function operationsOf(document: Doc | null, sample: unknown): Operation[] {
  const found: Operation[] = [];
  for (const [path, entry] of Object.entries(table(document?.paths))) {
    for (const method of METHODS) {
      const operation = table(entry)[method];
      if (operation && typeof operation === 'object')
        found.push(read(document!, method, shortPath(path, document!), operation as Table));
    }
  }
  const isScoring = (one: Operation): boolean => one.method === 'POST' && one.path === 'score';
  const own = found.find(isScoring);
  const first = { ...scoring(sample), ...(own ? { summary: own.summary, contentType: own.contentType } : {}) };
  if (own && sample === undefined) first.sample = own.sample;
  return [first, ...found.filter((one) => !isScoring(one))];
}

/** A path without the service's own address, which is in the paths or in the base path of version 2. */
function shortPath(path: string, document: Doc): string {
  const whole = `${String(document.basePath ?? '').replace(/\/$/, '')}/${path.replace(/^\//, '')}`;
  return whole.replace(/^\/api\/v1\/service\/[^/]+\/?/, '').replace(/^\//, '');
}

function read(document: Doc, method: string, path: string, operation: Table): Operation {
  const query = list(operation.parameters)
    .map((one) => resolved(table(one), document))
    .filter((one) => one.in === 'query' && one.required === true)
    .map(
      (one) => `${encodeURIComponent(String(one.name))}=${encodeURIComponent(String(parameterValue(one, document)))}`,
    );
  const body = bodyOf(document, operation);
  return {
    method: method.toUpperCase(),
    path: query.length ? `${path}?${query.join('&')}` : path,
    summary: String(operation.summary ?? operation.description ?? ''),
    contentType: body ? body.kind : '',
    sample: body ? written(body.kind, body.value) : '',
  };
}

const parameterValue = (one: Table, document: Doc): unknown =>
  one.example ?? ('schema' in one ? fittingValue(table(one.schema), document) : fittingValue(one, document));

function bodyOf(document: Doc, operation: Table): { kind: string; value: unknown } | null {
  const given = list(operation.parameters)
    .map((one) => resolved(table(one), document))
    .find((one) => one.in === 'body');
  if (given) {
    const kind = String(list(operation.consumes)[0] ?? list(document.consumes)[0] ?? 'application/json');
    return { kind, value: fittingValue(table(given.schema), document) };
  }
  const content = table(resolved(table(operation.requestBody), document).content);
  const kind = 'application/json' in content ? 'application/json' : Object.keys(content)[0];
  if (!kind) return null;
  const described = table(content[kind]);
  if ('example' in described) return { kind, value: described.example };
  const [example] = Object.values(table(described.examples)).map(table);
  return {
    kind,
    value: example && 'value' in example ? example.value : fittingValue(table(described.schema), document),
  };
}

const written = (kind: string, value: unknown): string =>
  typeof value === 'string' && !kind.includes('json') ? value : JSON.stringify(value ?? null, null, 2);

const BY_TYPE: Record<string, unknown> = { string: 'text', integer: 1, number: 1, boolean: true, null: null };

/** The schema's example, else a value that fits it. */
export function fittingValue(given: Table, document: Doc, depth = DEEPEST): unknown {
  const schema = resolved(given, document);
  for (const name of ['example', 'default', 'const']) if (name in schema) return schema[name];
  for (const name of ['examples', 'enum']) if (list(schema[name]).length) return list(schema[name])[0];
  for (const name of ['anyOf', 'oneOf', 'allOf']) {
    if (list(schema[name]).length)
      return depth ? fittingValue(table(list(schema[name])[0]), document, depth - 1) : null;
  }
  const kind = Array.isArray(schema.type) ? schema.type[0] : schema.type;
  if (kind === 'array') return depth ? [fittingValue(table(schema.items), document, depth - 1)] : [];
  if (kind === 'object' || 'properties' in schema) {
    const inner = depth ? Object.entries(table(schema.properties)) : [];
    return Object.fromEntries(inner.map(([name, one]) => [name, fittingValue(table(one), document, depth - 1)]));
  }
  return String(kind) in BY_TYPE ? BY_TYPE[String(kind)] : 1;
}

/** Follow `$ref`s within the document; one that leads nowhere, or round and round, is an empty schema. */
function resolved(given: Table, document: Doc): Table {
  let schema = given;
  for (let step = 0; step < DEEPEST && typeof schema.$ref === 'string' && schema.$ref.startsWith('#/'); step++) {
    schema = schema.$ref
      .slice(2)
      .split('/')
      .reduce<Table>((found, part) => table(own(found, part.replaceAll('~1', '/').replaceAll('~0', '~'))), document);
  }
  return schema;
}

const own = (found: Table, name: string): unknown => (Object.hasOwn(found, name) ? found[name] : undefined);
const table = (value: unknown): Table =>
  value !== null && typeof value === 'object' && !Array.isArray(value) ? (value as Table) : {};
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : []);
