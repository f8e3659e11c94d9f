import { describe, expect, it } from 'vitest';
import { operationsOf, scoring, fittingValue } from './openapi';

const PREFIX = '/api/v1/service/iris';
const SCORE = {
  description: 'Answers with the model.',
  requestBody: { content: { 'application/json': { schema: { $ref: '#/components/schemas/ServiceInput' } } } },
};
const DOCUMENT = {
  openapi: '3.0.3',
  paths: {
    [`${PREFIX}/`]: { get: { description: 'Says that the service is up.' } },
    [`${PREFIX}/score`]: { post: SCORE, parameters: [] },
    [`${PREFIX}/swagger.json`]: {
      get: {
        parameters: [
          { name: 'version', in: 'query', required: true, schema: { enum: ['3', '2'] } },
          { name: 'other', in: 'query' },
        ],
      },
    },
  },
  components: {
    schemas: {
      ServiceInput: {
        type: 'object',
        properties: { data: { type: 'array', items: { $ref: '#/components/schemas/Row' } }, method: { enum: ['a'] } },
      },
      Row: { type: 'array', items: { type: 'number' } },
    },
  },
};

describe('operationsOf', () => {
  it('lists scoring first, with the sample of the server, and paths below the service', () => {
    const found = operationsOf(DOCUMENT, { data: [[5.1]] });
    expect(found.map((one) => `${one.method} ${one.path}`)).toEqual([
      'POST score',
      'GET ',
      'GET swagger.json?version=3',
    ]);
    expect(JSON.parse(found[0]!.sample)).toEqual({ data: [[5.1]] });
    expect(found[1]!.sample).toBe('');
  });

  it('makes a body out of the schema when the server has none', () => {
    expect(JSON.parse(operationsOf(DOCUMENT, undefined)[0]!.sample)).toEqual({ data: [[1]], method: 'a' });
  });

  it('reads version 2 too', () => {
    const two = {
      swagger: '2.0',
      basePath: `${PREFIX}/`,
      paths: {
        '/score': { post: { parameters: [{ in: 'body', schema: { $ref: '#/definitions/In' } }] } },
        '/named': { post: { consumes: ['text/csv'], parameters: [{ in: 'body', schema: { example: 'a,b' } }] } },
      },
      definitions: { In: { example: [1, 2] } },
    };
    const [score, named] = operationsOf(two, undefined);
    expect(JSON.parse(score!.sample)).toEqual([1, 2]);
    expect(named).toMatchObject({ path: 'named', contentType: 'text/csv', sample: 'a,b' });
  });

  it.each([null, {}, { paths: null }, { paths: [1] }, { paths: { '/x': 'no' } }, { paths: { '/x': { get: 7 } } }])(
    'has scoring alone of %j',
    (document) => {
      expect(operationsOf(document as Record<string, unknown>, undefined)).toEqual([scoring(undefined)]);
    },
  );
});

describe('fittingValue', () => {
  it('ends in schemas that refer to themselves', () => {
    const document = { a: { $ref: '#/b' }, b: { $ref: '#/a' }, tree: { properties: { next: { $ref: '#/tree' } } } };
    expect(fittingValue({ $ref: '#/a' }, document)).toBe(1);
    expect(JSON.stringify(fittingValue({ $ref: '#/tree' }, document))).toMatch(/^({"next":){12}\{\}\}+$/);
    expect(fittingValue({ $ref: '#/constructor/name' }, document)).toBe(1);
  });
});
