// Web services as the server sends them. `tests/studio/test_types.py` compares them with its OpenAPI document.
import type { EnvironmentSpec, RunError, Time } from './types';

export interface Scaling {
  is_on: boolean;
  replicas: number;
  min_replicas: number;
  max_replicas: number;
  target_utilization: number;
}

export interface RevisionSpec {
  /** Each: `name:version`. */
  models: string[];
  entry: string;
  snapshot_id: string | null;
  no_code: string;
  environment: EnvironmentSpec;
  variables: Record<string, string>;
  target: string;
  gpus: number | null;
  scaling: Scaling;
  workers: number;
  threads: number;
  batching: string;
  memory_limit_mb: number;
  label: string;
  created_by: string;
}

export interface ReplicaRef {
  run_id: string;
  number: number;
  is_wanted: boolean;
}

export interface ServiceRevision {
  number: number;
  created_at: Time;
  spec: RevisionSpec;
  /** Starting, Ready, Stopped or Failed. */
  state: string;
  error: RunError | null;
  replicas: ReplicaRef[];
  failed_starts: number;
  workers: number;
  busy: number;
  retire_at: Time | null;
}

export interface ServiceOperation {
  /** Create, Update or Rollback. */
  kind: string;
  /** Running, Succeeded or Failed. */
  state: string;
  revision: number;
  started_at: Time | null;
  error: RunError | null;
}

export interface ServiceSettings {
  compute_type: string;
  compute_name: string;
  description: string;
  tags: Record<string, string>;
  properties: Record<string, string>;
  auth: boolean | null;
  token_auth: boolean;
  port: number;
  cors_origins: string[];
}

export interface Webservice {
  workspace: string;
  name: string;
  id: string;
  run_id: string;
  created_at: Time;
  updated_at: Time;
  settings: ServiceSettings;
  revisions: ServiceRevision[];
  /** The revision that serves, by the label of its version; "" on services without versions. */
  current: Record<string, number>;
  /** Percent of the requests by label; the default version gets the rest. */
  shares: Record<string, number>;
  default: string;
  route: string;
  operation: ServiceOperation | null;
  /** Transitioning, Healthy, Unhealthy or Failed. */
  state: string;
  error: RunError | null;
  scoring_uri: string;
  created_by: string;
}

/** Both keys of a service: the answer of `GET …/keys`. */
export interface ServiceKeys {
  primary: string;
  secondary: string;
}

/** What a service answered to a request that the page sent. `text` is null when the body is not text. */
export interface ServiceAnswer {
  status: number;
  content_type: string;
  text: string | null;
  size_bytes: number;
  is_cut: boolean;
  request_id: string;
  run_ms: string;
  took_ms: number;
}

export interface ServiceDescription {
  /** An OpenAPI document; null when the service has none or is not ready. */
  document: Record<string, unknown> | null;
  sample: unknown;
}
