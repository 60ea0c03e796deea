import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { stringify } from 'yaml';
import { makeTar } from '../../../src/lib/tar/write.ts';
import { diagnose } from '../doctor/check.ts';
import { createDoctorContext } from '../doctor/context.ts';
import { CHECKS } from '../doctor/doctor.ts';
import type { Config } from '../domain/config.ts';
import { views } from '../domain/desired.ts';
import { AGENT_VERSION } from '../domain/names.ts';
import { shownUrl } from '../domain/position-lookup.ts';
import { startedAt } from '../engines/embedded/machine/started.ts';
import { findEngineUrl, socketOf } from '../engines/find.ts';
import { openEngine } from '../engines/open.ts';
import { CliError, LocalClient } from '../local-api/client.ts';
import { readTail, readText } from '../machine/disk.ts';
import { open, readAll } from '../machine/http.ts';
import { errorText } from '../machine/log.ts';
import { logFiles } from '../machine/log-files.ts';
import { rowTexts } from '../state/rows.ts';
import { knownSecrets, masker } from './secrets.ts';

const LOG_BYTES = 2 * 1024 * 1024;

/** Sections of a bundle that need the running agent: file -> route. */
const ROUTES: Readonly<Record<string, string>> = {
  'status.json': '/v1/system/status',
  'info.json': '/v1/system/info',
  'settings-in-force.json': '/v1/system/config',
  'microservices.json': '/v1/ms',
};

/**
 * The support bundle as a tar.gz: state, settings, log, desired state, and the findings of the doctor. It contains no
 * secret: values of env variables, configs of microservices and logs of containers are left out, and everything else is
 * searched for every secret that the agent has. Works without a running agent.
 */
export async function supportBundle(
  configFile: string,
  signal: AbortSignal,
): Promise<{ archive: Buffer; files: string[] }> {
  const context = createDoctorContext(configFile);
  const { config } = context;
  const { responses, detail } = context.database();
  const { identity } = context.identity();
  const client = new LocalClient({ socket: config.socket, tokenFile: config.tokenFile, configFile, signal });
  const files = new Map<string, string>();
  const put = async (name: string, make: () => unknown) => {
    try {
      const content = await make();
      files.set(name, typeof content === 'string' ? content : `${JSON.stringify(content, undefined, 2)}\n`);
    } catch (error) {
      files.set(name, `not available: ${error instanceof CliError ? error.message : errorText(error)}\n`);
    }
  };

  await put('about.json', () => ({
    agent: AGENT_VERSION,
    node: process.version,
    platform: `${process.platform} ${process.arch}`,
    made: new Date().toISOString(),
    database: detail,
  }));
  await put('doctor.json', () => diagnose(CHECKS, context));
  await put('settings.yaml', () => stringify({ ...config, gpsLookupUrl: shownUrl(config.gpsLookupUrl) }));
  await put('policy.yaml', () => readText(config.policyFile) ?? '# none: everything is allowed\n');
  await put('identity.json', () => ({ instance: identity?.instance, node: identity?.node }));
  await put('desired.json', () => summary(responses));
  const engineUrl = findEngineUrl(config);
  await put('engine.json', () =>
    openEngine({ url: engineUrl, instance: 'bundle' }).connect(AbortSignal.timeout(10_000)),
  );
  // Also where it does not answer.
  const ownEngine = startedAt(socketOf(engineUrl) ?? '');
  if (ownEngine) await put('own-engine.json', () => ownEngine);
  for (const [name, route] of Object.entries(ROUTES))
    await put(name, async () => withoutValues(await client.call('GET', route)));
  await put('metrics.txt', () => metrics(config));
  await put('agent.log', async () => {
    const { entries } = await client.call<{ entries: { line: string }[] }>('GET', '/v1/system/logs?tail=1000');
    return entries.map(({ line }) => `${line}\n`).join('');
  });
  for (const file of config.logDirectory ? logFiles(config.logDirectory).slice(-2) : [])
    await put(`logs/${file.name}`, () => readTail(file.path, LOG_BYTES));

  const rows = [...rowTexts(join(config.diskDirectory, 'local'))].map(([path, body]) => [path, { body }] as const);
  const documents = new Map([...responses, ...rows]);
  const mask = masker(knownSecrets({ identity, token: readable(config.tokenFile), documents }));
  const modified = Date.now() / 1000;
  const entries = [...files].map(([name, text]) => ({
    ...({ path: `skerry-support/${name}`, type: 'file', mode: 0o600, modified } as const),
    content: Buffer.from(mask(text)),
  }));
  return { archive: gzipSync(makeTar(entries)), files: [...files.keys()] };
}

/** The desired state without values that people chose, since any of them may be secret. */
function summary(responses: Parameters<typeof views>[0]) {
  return [...views(responses).values()].map(({ env, config, ...view }) => ({
    ...view,
    env: env.map(({ key }) => key),
    config: `${Buffer.byteLength(config ?? '')} bytes`,
    cmd: undefined,
  }));
}

/** Removes values of env variables at any depth. */
function withoutValues(data: unknown): unknown {
  return JSON.parse(
    JSON.stringify(data, (name, value: unknown) =>
      name === 'env' && value !== null && typeof value === 'object' ? Object.keys(value) : value,
    ),
  );
}

async function metrics({ socket }: Config): Promise<string> {
  const answer = await open({ target: { socketPath: socket }, method: 'GET', path: '/metrics', deadline: 10_000 });
  return (await readAll(answer, 4 * 1024 * 1024, 10_000)).toString('utf8');
}

function readable(file: string): string | undefined {
  try {
    return readText(file);
  } catch {
    return undefined;
  }
}
