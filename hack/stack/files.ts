import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { PORTS } from '../../src/api/names.ts';
import { ROOT } from '../paths.ts';
import { freePort } from '../ports.ts';

/** The data folder of the local stack; SKERRY_STACK names another. */
export const STACK_FOLDER = resolve(process.env.SKERRY_STACK || join(ROOT, '.skerry'));

/** Name of the pid file of the process that runs the stack itself. */
export const STACK_PROCESS = 'stack';

/** `stack.json`: addresses and paths, for scripts. */
export interface StackFile {
  rest: string;
  /** Authority of the certificate of REST, where that is HTTPS. */
  ca?: string;
  /** Another provider of the users, where they are not the controller's. */
  provider?: string;
  apiserver: string;
  agent: string;
  registry: string;
  /** Absent without the sample. */
  sample?: string;
  metrics: string;
  /** Name of the local node. */
  node: string;
  engine: { kind: string; url: string };
}

/** What a later run needs to know of an earlier one. */
export interface StackState {
  /** uuid of the local node, which is a label of its containers. */
  node: string;
  /** URL of the controller for its agent. */
  rest?: string;
  /** URL of an engine that the stack did not start. */
  engine?: string;
}

/** Ports besides the one of REST, all on loopback. */
export interface StackPorts {
  metrics: number;
  internal: number;
  agent: number;
  registry: number;
}

/** The folders of the parts, each with its own pid files. */
export function partFolders(dir: string): string[] {
  return [dir, ...['control-plane', 'dex', 'engine', 'registry'].map((part) => join(dir, part))];
}

/** The registry's port of the last run if it is free: it is part of image references, so it should not change. */
export function chooseRegistryPort(dir: string): Promise<number> {
  return freePort(lastPorts(dir).registry);
}

/** The other ports: as in the last run, else the default ones, else free ones. To be called just before their use. */
export async function chooseStackPorts(dir: string, registry: number): Promise<StackPorts> {
  const { metrics, internal, agent } = PORTS;
  return { ...(await keepPorts(join(dir, 'ports.json'), { metrics, internal, agent }, { registry })), registry };
}

/** Free ports by their names: a port of the last run, which the file has, else a wanted port, else any. `given` ports are written beside them. */
export async function keepPorts<Name extends string>(
  file: string,
  wanted: Readonly<Record<Name, number | undefined>>,
  given: Readonly<Record<string, number>> = {},
): Promise<Record<Name, number>> {
  const last: Partial<Record<Name, number>> = readJson(file) ?? {};
  const ports = {} as Record<Name, number>;
  for (const name of Object.keys(wanted) as Name[]) ports[name] = await freePort(last[name] ?? wanted[name]);
  writeAtomically(file, JSON.stringify({ ...ports, ...given }));
  return ports;
}

function lastPorts(dir: string): Partial<StackPorts> {
  return readJson(join(dir, 'ports.json')) ?? {};
}

/** Replaces a file atomically, readable by its owner only. */
export function writeAtomically(file: string, text: string): void {
  writeFileSync(`${file}.new`, text, { mode: 0o600 });
  renameSync(`${file}.new`, file);
}

/** The value in a JSON file, or undefined when there is no such file. */
export function readJson<T>(file: string): T | undefined {
  return existsSync(file) ? JSON.parse(readFileSync(file, 'utf8')) : undefined;
}
