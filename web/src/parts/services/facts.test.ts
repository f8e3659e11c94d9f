import { describe, expect, it } from 'vitest';
import type { ServiceRevision, Webservice } from '../../api/services';
import { curlLine, modelParts, requestRate, servedVersions, serviceNameOf, troubleOf, weightsOf } from './facts';

const revision = (number: number, more: object = {}): ServiceRevision =>
  ({
    number,
    state: 'Ready',
    error: null,
    workers: 1,
    spec: { models: [`net:${number}`] },
    ...more,
  }) as ServiceRevision;

const service = (more: object = {}): Webservice =>
  ({
    name: 'iris',
    run_id: 'r_1',
    revisions: [revision(1), revision(2)],
    current: { '': 2 },
    shares: {},
    default: '',
    operation: null,
    state: 'Healthy',
    error: null,
    settings: { auth: false, token_auth: false },
    scoring_uri: 'http://127.0.0.1:5/api/v1/service/iris/score',
    ...more,
  }) as unknown as Webservice;

describe('troubleOf', () => {
  it('is null while all is well', () => expect(troubleOf(service())).toBeNull());

  it('has the cause first, and says which revision goes on', () => {
    const error = { code: 'CrashLoopBackOff', message: 'It does not start: KeyError\nTraceback\n  line\n\n' };
    const operation = { kind: 'Update', state: 'Failed', revision: 3, started_at: null, error };
    expect(troubleOf(service({ error, operation }))).toEqual({
      title: 'Revision 3 did not start',
      cause: 'It does not start: KeyError',
      lines: ['Traceback', '  line'],
      code: 'CrashLoopBackOff',
      revision: 3,
      still: 'Revision 2 goes on to answer.',
    });
    expect(troubleOf(service({ error, operation, current: {}, state: 'Failed' }))?.still).toBe('');
  });

  it('tells a service that stopped answering from one that was ended', () => {
    const error = { code: 'Stopped', message: 'Replica 4 ended.' };
    expect(troubleOf(service({ error, state: 'Unhealthy' }))).toMatchObject({
      title: 'The service does not answer',
      revision: 2,
    });
    const operation = { kind: 'Create', state: 'Failed', revision: 2, started_at: null, error };
    expect(troubleOf(service({ error, operation, state: 'Failed', current: {} }))?.title).toBe(
      'This service was ended',
    );
  });
});

describe('weightsOf', () => {
  it('gives all to the one that serves', () => expect([...weightsOf(service())]).toEqual([[2, 100]]));

  it('gives the default version what the others leave', () => {
    const shared = service({ current: { blue: 1, green: 2 }, shares: { green: 20 }, default: 'blue' });
    expect([...weightsOf(shared)]).toEqual([
      [1, 80],
      [2, 20],
    ]);
  });

  it('is empty while none serves', () => expect(weightsOf(service({ current: {} })).size).toBe(0));
});

describe('models', () => {
  it('splits at the last colon', () => {
    expect(modelParts('a:b:3')).toEqual({ name: 'a:b', version: '3' });
    expect(modelParts('plain')).toEqual({ name: 'plain', version: '' });
  });

  it('finds the versions that are served now', () => {
    expect(servedVersions(service(), 'net')).toEqual(['2']);
    expect(servedVersions(service({ current: {} }), 'net')).toEqual([]);
    expect(servedVersions(service(), 'other')).toEqual([]);
  });
});

describe('curlLine', () => {
  it('needs no key', () =>
    expect(curlLine(service(), [1, 2])).toBe(
      "curl -H 'Content-Type: application/json' -d '[1,2]' http://127.0.0.1:5/api/v1/service/iris/score",
    ));

  it('gets the key by itself, and keeps quotes for the shell', () => {
    const line = curlLine(service({ settings: { auth: true, token_auth: false } }), "it's");
    expect(line).toContain('-H "Authorization: Bearer $(runyard services keys iris primary)"');
    expect(line).toContain(`-d '"it'"'"'s"'`);
  });

  it.each([null, undefined, {}])('has a body where %j says nothing of one', (sample) =>
    expect(curlLine(service(), sample)).toContain(`-d '{"data":[]}'`),
  );
});

describe('requestRate', () => {
  const metrics = { requests: { r_1: [25, 0, 25, 2] }, seconds: { r_1: [10, 10, 10, 2] } } as const;
  it('is requests by seconds of the last row', () => expect(requestRate(metrics, 'r_1')).toBe(2.5));
  it('is null without rows', () => {
    expect(requestRate(metrics, 'r_2')).toBeNull();
    expect(requestRate({}, 'r_1')).toBeNull();
  });
});

describe('serviceNameOf', () => {
  const properties = { 'runyard.service': 'iris' };
  it.each([
    ['runyard.service', 'iris'],
    ['runyard.replica', 'iris'],
    ['azureml.scriptrun', null],
    [null, null],
  ])('of a run of type %s is %s', (type, name) => expect(serviceNameOf({ type, properties })).toBe(name));
});
