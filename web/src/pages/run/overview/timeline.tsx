// The phases as a bar in proportion, and as a table with the reasons.
import type { Run, RunStatus } from '../../../api/types';
import { duration, exact } from '../../../lib/format';
import { now, statusKind, statusWord } from '../../../parts/basics';
import { Prose } from '../../../parts/prose';
import { attemptsOf, lasted, MEANING, shares, type AttemptSteps, type Step } from '../timeline';
import { Card } from './card';

export function Timeline({ run }: { run: Run }) {
  const attempts = attemptsOf(run);
  if (!attempts.length) return null;
  const at = run.ended_at ? Date.parse(run.ended_at) : now.value;
  return (
    <Card
      title="Timeline"
      more={<span class="small soft number">{duration(at - Date.parse(run.created_at))} in all</span>}
    >
      {attempts.map((one, index) => (
        <Attempt
          key={one.number}
          at={at}
          isSweep={run.spec.sweep !== null}
          attempt={one}
          isOnly={attempts.length === 1}
          end={index === attempts.length - 1 ? endOf(run) : null}
        />
      ))}
    </Card>
  );
}

interface End {
  status: RunStatus;
  at: string;
}

const endOf = (run: Run): End | null => (run.ended_at ? { status: run.status, at: run.ended_at } : null);

function Attempt({
  attempt,
  at,
  isOnly,
  isSweep,
  end,
}: {
  attempt: AttemptSteps;
  at: number;
  isOnly: boolean;
  isSweep: boolean;
  end: End | null;
}) {
  const widths = shares(attempt.steps.map((step) => lasted(step, at)));
  return (
    <div class="attempt">
      {!isOnly && (
        <p class="small">
          <strong>Attempt {attempt.number}</strong>
          {attempt.code && (
            <span class="soft">
              {' '}
              given up: {attempt.code}
              {attempt.host ? ` on ${attempt.host}` : ''}. {attempt.why}
            </span>
          )}
        </p>
      )}
      <div class="phase-bar" aria-hidden="true">
        {attempt.steps.map((step, index) => (
          <span
            key={index}
            class={`phase ${kindOf(step)}${step.to === null ? ' going' : ''}`}
            style={{ width: `${widths[index]}%` }}
            title={`${statusWord(step.status)}: ${duration(lasted(step, at))}`}
          />
        ))}
      </div>
      <table class="phases">
        <caption class="hidden-text">Phases{isOnly ? '' : ` of attempt ${attempt.number}`}</caption>
        <thead class="hidden-text">
          <tr>
            <th>Phase</th>
            <th>Duration</th>
            <th>Why</th>
          </tr>
        </thead>
        <tbody>
          {attempt.steps.map((step, index) => (
            <tr key={index}>
              <th scope="row" title={`since ${exact(step.from)}`}>
                <span class={`phase-dot ${kindOf(step)}`} aria-hidden="true" /> {statusWord(step.status)}
              </th>
              <td class="number">{duration(lasted(step, at))}</td>
              <td>
                <Why step={step} at={at} isSweep={isSweep} />
              </td>
            </tr>
          ))}
          {end && (
            <tr>
              <th scope="row">
                <span class={`phase-dot ${statusKind(end.status)}`} aria-hidden="true" /> {statusWord(end.status)}
              </th>
              <td />
              <td class="soft">{exact(end.at)}</td>
            </tr>
          )}
        </tbody>
      </table>
    </div>
  );
}

function Why({ step, at, isSweep }: { step: Step; at: number; isSweep: boolean }) {
  if (!step.waits.length)
    return (
      <span class="faint">
        {isSweep && step.status === 'Running' ? 'its runs go on' : (MEANING[step.status] ?? '')}
      </span>
    );
  const [first] = step.waits;
  if (step.waits.length === 1)
    return (
      <span>
        <Prose text={first!.text} />
      </span>
    );
  const spent = step.waits.map((one, index) => (step.waits[index + 1]?.since ?? step.to ?? at) - one.since);
  const longest = spent.indexOf(Math.max(...spent));
  return (
    <details>
      <summary>
        <Prose text={step.waits[longest]!.text} />
      </summary>
      <ul class="overview-list">
        {step.waits.map((one, index) => (
          <li key={index}>
            <span class="number soft">{duration(spent[index]!)}</span> <Prose text={one.text} />
          </li>
        ))}
      </ul>
    </details>
  );
}

const kindOf = (step: Step): string =>
  step.status === 'Queued'
    ? 'queued'
    : step.status === 'Running'
      ? 'running'
      : statusKind(step.status) === 'warn'
        ? 'warned'
        : 'preparing';
