// The phases of a run with how long each took and what it waited for, attempt by attempt.
import { hasEnded, type Run, type RunStatus } from '../../api/types';

export interface Wait {
  text: string;
  since: number;
}

export interface Step {
  status: RunStatus;
  from: number;
  /** null: it goes on. */
  to: number | null;
  waits: Wait[];
}

export interface AttemptSteps {
  number: number;
  steps: Step[];
  /** Why it was given up; "" for the last. */
  why: string;
  code: string;
  host: string;
}

/** A phase's usual meaning, where the server gives no reason. */
export const MEANING: Partial<Record<RunStatus, string>> = {
  Queued: 'waiting for its compute target',
  Preparing: 'fetching code and data, making the environment',
  Provisioning: 'waiting for machines',
  Starting: 'starting the processes',
  Running: 'the script runs',
  Finalizing: 'sending the last metrics, logs and files',
  CancelRequested: 'the processes were asked to stop',
  NotResponding: 'nothing is heard of it',
};

export function attemptsOf(run: Run): AttemptSteps[] {
  const ends = run.attempts.map((one) => Date.parse(one.given_up_at));
  const found: AttemptSteps[] = [];
  for (const step of stepsOf(run)) {
    const index = ends.filter((end) => step.from >= end).length;
    const given = run.attempts[index];
    const last = found.at(-1);
    const number = given?.number ?? Math.max(run.attempt, 1);
    if (last?.number === number) last.steps.push(step);
    else found.push({ number, steps: [step], why: given?.why ?? '', code: given?.code ?? '', host: given?.host ?? '' });
  }
  return found;
}

/** One step for each phase but the end; created and queued are one. */
function stepsOf(run: Run): Step[] {
  const steps: Step[] = [];
  run.timeline.forEach((phase, index) => {
    if (hasEnded(phase.status)) return;
    const next = run.timeline[index + 1];
    const to = next ? Date.parse(next.at) : null;
    const waits = (phase.waits ?? []).map((one) => ({ text: one.text, since: Date.parse(one.at) }));
    const last = steps.at(-1);
    if (last && last.status === 'Queued' && phase.status === 'Queued' && index === 1) {
      last.to = to;
      last.waits.push(...waits);
    } else {
      steps.push({
        status: phase.status === 'NotStarted' ? 'Queued' : phase.status,
        from: Date.parse(phase.at),
        to,
        waits,
      });
    }
  });
  return steps;
}

export const lasted = (step: Step, now: number): number => Math.max(0, (step.to ?? now) - step.from);

/** Parts of the whole, each wide enough to be seen and hit, in percent. */
export function shares(durations: readonly number[], least = 4): number[] {
  const total = durations.reduce((sum, one) => sum + one, 0) || 1;
  const raised = durations.map((one) => Math.max((one / total) * 100, least));
  const sum = raised.reduce((all, one) => all + one, 0);
  return raised.map((one) => (one / sum) * 100);
}
