import type { MicroserviceView } from '../../../src/wire/agent.ts';
import type { Container } from '../engine-port/container.ts';

/** How a container field is asked for, and how it is observed that a container has it. */
export interface ContractRow {
  /** what of the field, where it has several rows */
  of?: string;
  /** how it is observed, for people */
  observed: string;
  view: (fixture: Fixture) => Partial<MicroserviceView>;
  /** folders that the container looks into, in rows that look from the inside */
  folders?: string[];
  /** what a process inside has to see; the container prints it and exits */
  inside?: (seen: Seen, fixture: Fixture) => void;
  /** whatever needs a running container */
  outside?: (running: Running, fixture: Fixture) => Promise<void>;
  /** for what takes effect when the image is pulled */
  pulled?: (architectureOf: (platform: string) => Promise<string>) => Promise<void>;
  /** the start must fail with this in its message */
  refused?: RegExp;
}

/** A row with its name: that of the field, and what of it. */
export interface Field extends ContractRow {
  field: string;
}

/** What a test arranges for a row. */
export interface Fixture {
  /** image of the sample, in the engine already */
  image: string;
  /** a folder of the host that is the row's own */
  folder: string;
  /** a port of the host that is free */
  port: number;
}

/** A container that runs for a row. */
export interface Running {
  id: string;
  look(): Promise<Container>;
  /** the labels that another program sees */
  labels(): Promise<Record<string, string>>;
  /** where the log of the container stands on this machine */
  logFile(): Promise<string>;
  /** sends a request to the sample inside */
  get(path: string): Promise<string>;
  /** waits until a condition holds */
  until<T>(what: string, check: () => Promise<T | undefined | false> | T | undefined | false): Promise<T>;
  /** starts a container of another microservice and returns what it sees */
  another(view: Partial<MicroserviceView>, folders?: string[]): Promise<Seen>;
  /** starts a container of another microservice, which runs until it is disposed of */
  beside(view: Partial<MicroserviceView>): Promise<AsyncDisposable>;
}

/** What `sample see` prints. */
export interface Seen {
  arguments: string[];
  env: Record<string, string>;
  workingDirectory: string;
  hostname: string;
  uid: number;
  gid: number;
  capabilities: string[];
  cpus: string;
  /** soft and hard */
  limits: Record<string, [string, string]>;
  sysctls: Record<string, string>;
  devices: Record<string, string>;
  hosts: string;
  namespaces: Record<'pid' | 'ipc' | 'net', string>;
  controls: Record<string, string>;
  folders: Record<string, { type: string; mode?: string; bytes?: number; writable: boolean; names: string[] }>;
}
