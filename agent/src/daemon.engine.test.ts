import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer as createPlainServer } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, inject, onTestFinished, test, vi } from 'vitest';
import { callEngine } from '../../hack/engine-api.ts';
import { freePort } from '../../hack/ports.ts';
import type {} from '../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../src/api/names.ts';
import { Home } from './_home.ts';
import { pushVersions, untilRuns, webView } from './_web.ts';
import { until } from './engines/_contract.ts';
import { firstEngine, outsideOf } from './engines/_outside.ts';
import { startedAt } from './engines/embedded/machine/started.ts';
import { FakeController, type View } from './link/_fake-controller.ts';
import { LocalClient } from './local-api/client.ts';

/** The agent as a process, with its file of settings and its end. */

vi.setConfig({ testTimeout: 120_000 });

const on = firstEngine();
const engineUrl = on.url;
const image = `${new URL(inject('registryUrl')).host}/daemon/sample:1`;

let controller: FakeController;
let home: Home;

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'daemon/sample', '1');
  await outsideOf(on).pull(image);
});
beforeEach(async () => {
  controller = await new FakeController().listen();
});
afterEach(async () => {
  await home.remove();
  await controller.close();
});

/** A route of the running agent, without the time that a command takes to start. */
const ask = <T>(method: string, path: string, body?: unknown): Promise<T> => {
  const run = join(home.folder, 'run');
  const places = { socket: join(run, 'api.sock'), tokenFile: join(run, 'token'), configFile: home.config };
  return new LocalClient({ ...places, signal: AbortSignal.timeout(60_000) }).call<T>(method, path, { body });
};
const status = () => ask<{ daemonStatus: string; warnings: string[] }>('GET', '/v1/system/status');
const settings = () => ask<Record<string, unknown>>('GET', '/v1/system/config');
const provision = () => ask('POST', '/v1/system/provision', { provisioningKey: controller.joinString });
const warns = (says: RegExp) =>
  until('the warning', async () => (await status()).warnings.some((each) => says.test(each)));
const refusesReload = (says: RegExp) =>
  expect(ask('POST', '/v1/system/reload')).rejects.toMatchObject({
    code: 'CONFLICT',
    message: expect.stringMatching(says),
  });
const edit = (change: object) =>
  writeFileSync(home.config, JSON.stringify({ ...JSON.parse(readFileSync(home.config, 'utf8')), ...change }));

test('an edit of the file of settings takes effect by itself; a broken file leaves the former settings, and says so', async () => {
  home = new Home({ engineUrl });
  await home.up();
  edit({ statusFrequency: 17 });
  await until('the setting', async () => (await settings()).statusFrequencySeconds === 17);
  const good = readFileSync(home.config, 'utf8');
  const replace = (text: string) => {
    writeFileSync(`${home.config}.new`, text);
    renameSync(`${home.config}.new`, home.config);
  };
  for (const [broken, says] of [
    ['statusFrequency: [', /is not YAML/],
    [good.replace('17', '0'), /statusFrequency 0: must be at least 1; the former ones stay/],
    [good.replace('{', '{"timeZone":"Mars",'), /timeZone "Mars": must be an IANA time zone/],
  ] as const) {
    replace(broken);
    await warns(says);
    expect(await settings()).toMatchObject({ statusFrequencySeconds: 17, timezone: '' });
    await refusesReload(new RegExp(says.source.replace(/; .*/, '')));
  }
  rmSync(home.config);
  await warns(/is not there any more/);
  await refusesReload(/config.yaml is not there any more/);
  expect(await settings()).toMatchObject({ statusFrequencySeconds: 17 });
  replace(good.replace('17', '18'));
  await until('the setting', async () => (await settings()).statusFrequencySeconds === 18);
  expect((await status()).warnings).toEqual([]);
});

test('a port of the local API that is taken shows at the liveness probe, and the socket is served', async () => {
  const taken = createPlainServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => void taken.close());
  home = new Home({ engineUrl, settings: { localApiPort: (taken.address() as AddressInfo).port } });
  await home.up();
  expect(await ask('GET', '/health/live')).toEqual({ status: 'ok', localApiPhase: 'failed' });
});

describe('a stop of the agent', () => {
  let view: View;

  async function running(settings: Record<string, unknown>): Promise<void> {
    home = new Home({ engineUrl, settings: { shutdownGracePeriodSeconds: 30, ...settings } });
    await home.up();
    await provision();
    view = webView({ uuid: randomUUID(), external: await freePort(), imageId: image, revision: 'r-1' });
    controller.change({ microservices: [view] });
    await untilRuns(controller, view);
  }
  const states = async () => (await home.containers()).map(({ state }) => state);
  const network = async () => {
    if (on.kind === 'embedded') return startedAt(engineUrl.replace('unix://', ''))?.network.subnet;
    const query = new URLSearchParams({
      filters: JSON.stringify({ label: [`${CONTAINER_LABELS.agent}=${home.instance}`] }),
    });
    const path = `/networks?${query}`;
    const [own] = await callEngine<{ IPAM?: { Config?: { Subnet?: string }[] } }[]>(engineUrl, 'GET', path);
    return own?.IPAM?.Config?.[0]?.Subnet;
  };

  test('with drain-all stops its containers first, and the next start is no crash; a network that is there keeps its addresses', async () => {
    await running({ shutdownPolicy: 'drain-all', bridgeCidr: '10.213.0.0/24' });
    const addresses = await network();
    // The network of the agent's own engine is made before the agent starts.
    if (on.kind !== 'embedded') expect(addresses).toBe('10.213.0.0/24');
    const [before] = await home.containers();
    await home.end();
    expect(await states()).toEqual(['exited']);
    edit({ bridgeCidr: '10.214.0.0/24' });
    await home.up();
    await until('the container', async () => (await states())[0] === 'running');
    const [after] = await home.containers();
    expect(after?.id).toBe(before?.id);
    expect((await ask<{ restartCount?: number }>('GET', `/v1/ms/${view.uuid}`)).restartCount ?? 0).toBe(0);
    const words = `bridgeCidr 10.214.0.0/24 has no effect: the network \\S+ has ${addresses}`.replaceAll('.', '\\.');
    await warns(new RegExp(`^network: ${words}`));
    expect(await network()).toBe(addresses);
  });

  test.runIf(process.env.SKERRY_NIGHTLY)('by the command says what becomes of the containers', async () => {
    await running({ shutdownPolicy: 'drain-all' });
    const { code, out } = await home.cli('system', 'stop');
    expect([code, out]).toEqual([0, 'The agent stops; after its containers\n']);
    await home.gone();
    expect(await states()).toEqual(['exited']);
  });

  test.runIf(process.env.SKERRY_NIGHTLY)(
    'with leave-running leaves containers alone; a drain stops them until the agent starts again',
    async () => {
      await running({});
      await home.end();
      expect(await states()).toEqual(['running']);
      await home.up();
      await until('the state', async () => (await status()).daemonStatus === 'RUNNING');
      expect(await home.cli('runtime', 'drain', '--yes', '--timeout', '20')).toMatchObject({ code: 0 });
      expect(await states()).toEqual(['exited']);
      await warns(/^drained: nothing is started until the agent starts again$/);
      await home.end();
      await home.up();
      await until('the container', async () => (await states())[0] === 'running');
    },
  );
});

test('a certificate that is installed is trusted without a restart', async () => {
  const at = (name: string) => readFileSync(join(import.meta.dirname, 'link/testdata', name), 'utf8');
  const shown = new Set<boolean>();
  const server: Server = createServer({ key: at('server.key'), cert: at('server.pem') }, (request, response) => {
    shown.add(true);
    request.resume();
    response.writeHead(503).end();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    home = new Home({ engineUrl, settings: { controllerCert: 'cert.crt', secureMode: true, changeFrequency: 1 } });
    await home.up();
    await provision();
    const { port } = server.address() as AddressInfo;
    const set = { controllerUrl: `https://127.0.0.1:${port}` };
    const { warning } = await ask<{ warning?: string }>('PATCH', '/v1/system/config', { set });
    expect(warning).toMatch(/self-signed|unable to verify/);
    expect(shown.size).toBe(0);
    const pem = join(home.folder, 'ca.pem');
    writeFileSync(pem, at('ca.pem'));
    expect(await home.cli('config', 'cert', `@${pem}`)).toMatchObject({ code: 0 });
    await until('a request over TLS', () => shown.size > 0, 60_000);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
