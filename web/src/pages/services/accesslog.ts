// Lines of a service's access log: `time method target status 12.345ms size id`. Pure.

export interface LogLine {
  time: string;
  method: string;
  target: string;
  status: number;
  tookMs: number;
  size: number;
  id: string;
}

/** Return the line in its parts, or as it is where it says something else: how many were left out. */
export function parsedLine(text: string): LogLine | string {
  const match = /^(\S+) (\S+) (.*) (\d{3}) ([\d.]+)ms (\d+) (\S*)$/.exec(text);
  if (!match) return text;
  const [, time, method, target, status, took, size, id] = match;
  return {
    time: time!,
    method: method!,
    target: target!,
    status: Number(status),
    tookMs: Number(took),
    size: Number(size),
    id: id!,
  };
}

/** Whether it has the words, and, where only errors are asked for, is one. */
export function isShown(text: string, sought: string, onlyErrors: boolean): boolean {
  const line = parsedLine(text);
  if (onlyErrors && (typeof line === 'string' || line.status < 400)) return false;
  const low = text.toLowerCase();
  return sought
    .toLowerCase()
    .split(/\s+/)
    .every((word) => low.includes(word));
}

export const statusTone = (status: number): string =>
  status >= 500 ? 'bad' : status >= 400 ? 'warn' : status >= 200 && status < 300 ? 'good' : 'idle';
