// Assets of a workspace as the server sends them. `tests/studio/test_types.py` compares them with its OpenAPI document.
import type { Asset, RunFile, Time } from './types';

export interface ModelVersion {
  name: string;
  version: number;
  created_at: Time;
  updated_at: Time;
  spec: {
    path: string;
    is_folder: boolean;
    files: RunFile[];
    description: string;
    tags: Record<string, string>;
    properties: Record<string, string>;
    framework: string;
    framework_version: string;
    run_id: string | null;
    experiment: string;
    /** Each: what it was for, and the dataset's id. */
    datasets: string[][];
    created_by: string;
  };
}

export interface DataSource {
  datastore: string;
  path: string;
  url: string;
}

export interface DatasetSpec {
  id: string;
  kind: string;
  sources: DataSource[];
  steps: ({ do?: string } & Record<string, unknown>)[];
  reader: Record<string, unknown>;
}

export interface DatasetAsset extends Asset {
  document: { spec?: DatasetSpec; description?: string; tags?: Record<string, string> };
}

/** An environment in Azure's JSON form; every part may be missing. */
export interface Definition {
  environmentVariables?: Record<string, string> | null;
  python?: {
    userManagedDependencies?: boolean;
    interpreterPath?: string;
    condaDependencies?: { channels?: string[]; dependencies?: (string | { pip?: string[] })[] } | null;
  } | null;
  docker?: {
    enabled?: boolean | null;
    baseImage?: string | null;
    baseDockerfile?: string | null;
    platform?: unknown;
  } | null;
}

export interface EnvironmentAsset extends Asset {
  document: { definition?: Definition; labels?: string[] };
}

/** One environment on the server's machine; times in seconds since 1970. */
export interface BuiltFolder {
  key: string;
  path: string;
  name: string;
  kind: string;
  python: string;
  requirements: string[];
  built_at: number;
  used_at: number;
  size_bytes: number;
  runs: string[];
  is_finished: boolean;
}

export interface ComputeNode {
  name: string;
  run_id: string | null;
  gpus: string[];
  address: string;
  state: string;
  cpus: number;
  gpu_count: number;
  memory_bytes: number;
  note: string;
}

export interface ComputeRun {
  run_id: string;
  node_count: number;
  gpus: string[];
  waits_for: string;
}

export interface ComputeTarget {
  workspace: string;
  name: string;
  created_at: Time | null;
  updated_at: Time | null;
  spec: {
    type: string;
    min_nodes: number;
    max_nodes: number;
    idle_seconds: number;
    vm_size: string;
    vm_priority: string;
    description: string;
    tags: Record<string, string>;
    is_stopped: boolean;
    engine: string;
    backend: string;
    options: Record<string, unknown>;
  };
  nodes: ComputeNode[];
  running: ComputeRun[];
  waiting: ComputeRun[];
  alias_of: string;
  note: string;
}
