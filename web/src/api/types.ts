// The records of the HTTP API; `tests/studio/test_types.py` compares them with its OpenAPI document.
// Times are ISO 8601 in UTC.
export type RunStatus =
  | 'NotStarted'
  | 'Starting'
  | 'Provisioning'
  | 'Preparing'
  | 'Queued'
  | 'Running'
  | 'Finalizing'
  | 'CancelRequested'
  | 'Completed'
  | 'Failed'
  | 'Canceled'
  | 'NotResponding'
  | 'Pausing'
  | 'Paused'
  | 'Unapproved';

export type Time = string;
export type Words = Record<string, string | null>;

export interface Workspace {
  id: string;
  name: string;
  created_at: Time;
}

export interface Experiment {
  id: string;
  name: string;
  /** Another text that it is shown and found by. */
  title?: string | null;
  workspace: string;
  created_at: Time;
  archived_at: Time | null;
  tags: Words;
  /** It is deleted, and can be restored until then. */
  undo_until?: Time | null;
}

export interface Phase {
  status: RunStatus;
  at: Time;
  /** What it waited for or was busy with in this phase, oldest first. */
  waits?: { text: string; at: Time }[];
}

export interface Attempt {
  number: number;
  given_up_at: Time;
  ended_at: Time | null;
  code: string;
  why: string;
  host: string;
}

export interface RunError {
  code?: string;
  message?: string;
  details?: Record<string, unknown>;
}

export interface EnvironmentSpec {
  name: string;
  version: string | null;
  kind: string;
  interpreter: string | null;
  pip_packages: string[];
  conda_packages: string[];
  conda_channels: string[];
  python_version: string | null;
  variables: Record<string, string>;
  container: { image: string; dockerfile: string } | null;
}

export interface RunSpec {
  target: string;
  script: string | null;
  arguments: string[];
  command: string | null;
  environment: EnvironmentSpec;
  distribution: { kind: string; node_count: number; processes_per_node: number; options: Record<string, unknown> };
  variables: Record<string, string>;
  time_limit_s: number;
  framework: string;
  communicator: string;
  gpus: number | null;
  sweep: Record<string, unknown> | null;
  data_references: Record<string, unknown>;
  datasets: Record<string, unknown>;
  outputs: Record<string, unknown>;
  resources: Record<string, unknown>;
  max_attempts: number;
}

export interface Run {
  id: string;
  number: number;
  workspace: string;
  experiment: string;
  experiment_id: string;
  status: RunStatus;
  created_at: Time;
  type: string | null;
  display_name: string;
  description: string;
  parent_id: string | null;
  root_id: string;
  attempt: number;
  spec: RunSpec;
  snapshot_id: string | null;
  snapshot_root: string | null;
  tags: Words;
  properties: Record<string, string>;
  parameters: Record<string, string>;
  started_at: Time | null;
  ended_at: Time | null;
  archived_at?: Time | null;
  /** It is deleted, and can be restored until then. */
  undo_until?: Time | null;
  error: RunError | null;
  warnings: { source?: string; message?: string }[];
  waits_for: string;
  desired: string | null;
  submitted_by: string;
  environment: Record<string, unknown>;
  timeline: Phase[];
  attempts: Attempt[];
}

export type CellValue = string | number | boolean | null;

/** A run as `/table` and `/tally` send it. */
export interface SentRow {
  id: string;
  number: number;
  experiment: string;
  display_name: string;
  status: RunStatus;
  type: string | null;
  target: string;
  created_at: Time;
  started_at: Time | null;
  ended_at: Time | null;
  parent_id: string | null;
  submitted_by: string;
  archived: boolean;
  waits_for: string;
  error: { code?: string; line?: string } | null;
  /** In the order of the columns that were asked for. */
  values: readonly CellValue[];
}

export interface RunFile {
  name: string;
  size: number;
  /** `blob` or `stream`. */
  kind: string;
  sha256: string | null;
  updated_at: Time | null;
  complete: boolean;
}

export interface Asset {
  workspace: string;
  kind: string;
  name: string;
  version: number;
  created_at: Time;
  updated_at: Time;
  document: Record<string, unknown>;
}

export interface MetricInfo {
  name: string;
  /** `scalar`, `table` or `artifact`. */
  kind: string;
  columns: string[];
  ranks: number[];
  count: number;
  last: unknown;
  minimum: number | null;
  maximum: number | null;
  artifact: string | null;
}

/** By metric and run: the last, least and greatest value, and how many there are. */
export type Summaries = Record<string, Record<string, readonly [unknown, number | null, number | null, number]>>;

/** The answer of `POST /metrics/summary`. */
export interface MetricSummaries {
  metrics: Summaries;
}

export interface ServerFacts {
  id: string;
  version: string;
  host: string;
  team: boolean;
  home: string;
}

/** A user with a role, the owner of the server (without a name), or a run. */
export interface Me {
  name: string | null;
  role: string | null;
  run_id: string | null;
}

const ENDED: ReadonlySet<string> = new Set(['Completed', 'Failed', 'Canceled']);
export const hasEnded = (status: RunStatus): boolean => ENDED.has(status);
