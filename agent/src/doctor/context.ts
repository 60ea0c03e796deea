import { join } from 'node:path';
import { CDI_DIRECTORIES } from '../domain/cdi.ts';
import { type Config, ConfigError, parseConfig } from '../domain/config.ts';
import { jsonOr } from '../domain/json.ts';
import { connectFailure } from '../machine/connects.ts';
import { readText } from '../machine/disk.ts';
import { exchange, plainHost, TransportError } from '../machine/http.ts';
import { errorText } from '../machine/log.ts';
import { type ShownCertificate, showCertificate } from '../machine/tls.ts';
import { type Identity, readIdentity } from '../state/identity.ts';
import { type Examined, examineSqliteDatabase } from '../state/sqlite-database.ts';
import { type DaemonView, lookAtDaemon } from './daemon.ts';

/** The input of the checks; each part is read once, when the first check needs it. */
export interface DoctorContext {
  configFile: string;
  /** the error of the configuration file; the defaults are used then */
  settingsError?: string;
  config: Config;
  wall(): number;
  /** where CDI specifications are, unless the engine says otherwise */
  cdiDirectories: readonly string[];
  identity(): { identity?: Identity; damaged?: string };
  database(): Examined;
  daemon(): Promise<DaemonView>;
  /** the controller's URL, if it is known */
  controllerUrl(): URL | undefined;
  certificate(): Promise<ShownCertificate>;
  /** the controller's status, requested without credentials and without verification of the certificate */
  controllerStatus(): Promise<ControllerStatus>;
}

type ControllerStatus =
  | { state: 'answers'; status: number; body: string; offset?: number }
  | { state: 'silent'; code: string; message: string; reached: Reached };

/** How far a controller without a status can be reached: not at all, by a connection, or as a live process. */
export type Reached = 'nothing' | 'connection' | 'process';

/** Less than the deadline of a check, for all requests one after another. */
const REACH = 8_000;

export function createDoctorContext(
  configFile: string,
  wall: () => number = Date.now,
  reach: number = REACH,
  cdiDirectories: readonly string[] = CDI_DIRECTORIES,
): DoctorContext {
  let settingsError: string | undefined;
  let config: Config;
  try {
    config = parseConfig(readText(configFile), configFile);
  } catch (error) {
    settingsError = error instanceof ConfigError ? error.message : `${configFile}: ${errorText(error)}`;
    config = parseConfig(undefined, configFile);
  }
  const context: DoctorContext = {
    configFile,
    ...(settingsError !== undefined && { settingsError }),
    config,
    wall,
    cdiDirectories,
    identity: once(() => readIdentity(join(config.diskDirectory, 'identity.json'))),
    database: once(() => examineSqliteDatabase(join(config.diskDirectory, 'agent.db'))),
    daemon: once(() => lookAtDaemon(config)),
    controllerUrl: once(() => urlOf(context.identity().identity?.node?.controllerUrl ?? config.controllerUrl)),
    certificate: once(() => showCertificate(context.controllerUrl() as URL, authorities(context))),
    controllerStatus: once(() => ask(context, reach)),
  };
  return context;
}

/** PEM of the authorities that are trusted for the controller in addition to the system's. */
export function authorities({ config, identity }: DoctorContext): string | undefined {
  const own = config.controllerCert && readText(config.controllerCert);
  return [identity().identity?.node?.ca, own].filter(Boolean).join('\n') || undefined;
}

async function ask(context: DoctorContext, reach: number): Promise<ControllerStatus> {
  const origin = context.controllerUrl() as URL;
  const before = context.wall();
  const get = (path: string, deadline: number) =>
    exchange({ target: { origin, insecure: true }, method: 'GET', path, deadline }, 64 * 1024);
  try {
    const { status, body } = await get('/api/v3/status', reach);
    const after = context.wall();
    const timestamp = timeIn(body);
    const offset = timestamp === undefined ? undefined : timestamp - (before + after) / 2;
    return { state: 'answers', status, body, ...(offset !== undefined && { offset }) };
  } catch (error) {
    const code = error instanceof TransportError ? error.code : 'FAILED';
    const reached = code === 'TIMEOUT' ? await howFar() : 'nothing';
    return { state: 'silent', code, message: errorText(error), reached };
  }

  /** Distinguishes a firewall, a process that hangs, and a process that waits for its API server. */
  async function howFar(): Promise<Reached> {
    const { protocol, port } = origin;
    const address = { host: plainHost(origin), port: Number(port || (protocol === 'https:' ? 443 : 80)) };
    const [failure, lives] = await Promise.all([
      connectFailure(address, reach / 2),
      get('/api/v3/live', reach / 2).then(
        ({ status, body }) => status === 200 && timeIn(body) !== undefined,
        () => false,
      ),
    ]);
    return lives ? 'process' : failure === undefined ? 'connection' : 'nothing';
  }
}

function timeIn(body: string): number | undefined {
  const { timestamp } = (jsonOr(body, undefined) ?? {}) as { timestamp?: unknown };
  return typeof timestamp === 'number' ? timestamp : undefined;
}

function urlOf(text: string | undefined): URL | undefined {
  return text !== undefined && URL.canParse(text) ? new URL(text) : undefined;
}

function once<T>(read: () => T): () => T {
  let known: { value: T } | undefined;
  return () => {
    known ??= { value: read() };
    return known.value;
  };
}
