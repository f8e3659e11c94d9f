// Records of web services as the pages show them. Pure.
import type { ServiceRevision, Webservice } from '../../api/services';
import type { RunError, Summaries } from '../../api/types';

const KINDS: Record<string, string> = {
  Healthy: 'good',
  Ready: 'good',
  Unhealthy: 'bad',
  Failed: 'bad',
  Transitioning: 'busy',
  Starting: 'busy',
};

/** The colour of a service's or a revision's state. */
export const stateKind = (state: string): string => KINDS[state] ?? 'idle';

export const revisionOf = (service: Webservice, number: number): ServiceRevision | undefined =>
  service.revisions.find((one) => one.number === number);

/** The revision that answers requests; of an endpoint that of its default version. */
export const servingOf = (service: Webservice): ServiceRevision | undefined =>
  revisionOf(service, service.current[service.default] ?? 0);

/** Percent of the requests by number, of the revisions that serve. */
export function weightsOf({ current, shares, default: main }: Webservice): Map<number, number> {
  const found = new Map(Object.entries(current).map(([label, number]) => [number, shares[label] ?? 0]));
  const number = current[main];
  if (number !== undefined) {
    const others = Object.entries(shares).reduce((sum, [label, share]) => (label === main ? sum : sum + share), 0);
    found.set(number, Math.max(0, 100 - others));
  }
  return found;
}

/** `name:version` in its parts. */
export function modelParts(text: string): { name: string; version: string } {
  const at = text.lastIndexOf(':');
  return at < 0 ? { name: text, version: '' } : { name: text.slice(0, at), version: text.slice(at + 1) };
}

/** The versions of a model that a service serves now. */
export function servedVersions(service: Webservice, name: string): string[] {
  const models = Object.values(service.current).flatMap((number) => revisionOf(service, number)?.spec.models ?? []);
  return models
    .map(modelParts)
    .filter((one) => one.name === name)
    .map((one) => one.version);
}

export interface Trouble {
  /** What does not work. */
  title: string;
  /** The first line of the cause. */
  cause: string;
  /** The other lines: a traceback, the end of a log. */
  lines: string[];
  code: string;
  revision: number;
  /** What goes on to answer all the same; '' when nothing does. */
  still: string;
}

/** Why the service, or its newest revision, does not work; null when it does, or is still starting. */
export function troubleOf(service: Webservice): Trouble | null {
  const { error, operation, state } = service;
  if (!error) return null;
  const serving = servingOf(service);
  const hasFailedStart = operation?.state === 'Failed' && state !== 'Unhealthy';
  const revision = hasFailedStart ? operation.revision : (serving?.number ?? 0);
  const title =
    error.code === 'Stopped' && !serving
      ? 'This service was ended'
      : hasFailedStart
        ? `Revision ${revision} did not start`
        : 'The service does not answer';
  const still = hasFailedStart && serving ? `Revision ${serving.number} goes on to answer.` : '';
  return { title, ...causeOf(error), code: error.code ?? '', revision, still };
}

/** An error's first line, and the lines below it. */
export function causeOf(error: RunError | null): { cause: string; lines: string[] } {
  const [cause = '', ...lines] = (error?.message ?? '').split('\n');
  while (lines.length && !lines[lines.length - 1]!.trim()) lines.pop();
  return { cause: cause || 'It left no message.', lines };
}

/** Requests a second in the gateway's last row of figures; null when there is none. */
export function requestRate(metrics: Summaries, runId: string): number | null {
  const last = (name: string): unknown => metrics[name]?.[runId]?.[0];
  const [requests, seconds] = [last('requests'), last('seconds')];
  return typeof requests === 'number' && typeof seconds === 'number' && seconds > 0 ? requests / seconds : null;
}

export const workersOf = (service: Webservice): number => service.revisions.reduce((sum, one) => sum + one.workers, 0);

/** A text as one word of a POSIX shell. */
const quoted = (text: string): string => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);

/** A body to begin with: the sample, or, where that says nothing, the usual frame of a request. */
export const sampleText = (sample: unknown, indent = 0): string => {
  const isEmpty = sample === null || sample === undefined || JSON.stringify(sample) === '{}';
  return JSON.stringify(isEmpty ? { data: [] } : sample, null, indent);
};

/** A command that calls the service; it gets a key by itself. */
export function curlLine(service: Webservice, sample: unknown): string {
  const { auth, token_auth } = service.settings;
  const words = ['curl', "-H 'Content-Type: application/json'"];
  if (auth) words.push(`-H "Authorization: Bearer $(runyard services keys ${quoted(service.name)} primary)"`);
  else if (token_auth) words.push('-H "Authorization: Bearer $TOKEN"');
  words.push('-d', quoted(sampleText(sample)), quoted(service.scoring_uri));
  return words.join(' ');
}

/** Which runs belong to a service, by the property that the server gives them. */
export const serviceNameOf = (run: { type: string | null; properties: Record<string, string> }): string | null =>
  run.type === 'runyard.service' || run.type === 'runyard.replica' ? (run.properties['runyard.service'] ?? null) : null;
