import { randomUUID } from 'node:crypto';
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { callEngine, pullInsecure } from '../../hack/engine-api.ts';
import { freePort } from '../../hack/ports.ts';
import type {} from '../../hack/testing/provided.ts';
import { Home } from './_home.ts';
import { pushVersions, untilRuns, webView } from './_web.ts';
import { until } from './engines/_contract.ts';
import { FakeController, type View } from './link/_fake-controller.ts';

/** The agent as a process, with its file of settings and its end. */

vi.setConfig({ testTimeout: 120_000 });

const engineUrl = inject('engineUrl');
const image = `${new URL(inject('registryUrl')).host}/daemon/sample:1`;

let controller: FakeController;
let home: Home;

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'daemon/sample', '1');
  await pullInsecure(engineUrl, image);
});
beforeEach(async () => {
  controller = await new FakeController().listen();
});
afterEach(async () => {
  await home.remove();
  await controller.close();
});

const status = async () =>
  JSON.parse((await home.cli('status', '-o', 'json')).out) as { daemonStatus: string; warnings: string[] };
const settings = async () => JSON.parse((await home.cli('config', '-o', 'json')).out) as Record<string, unknown>;
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
    [good.replace('17', '0'), /statusFrequency: must be at least 1; the former ones stay/],
    [good.replace('{', '{"timeZone":"Mars",'), /timeZone "Mars": must be an IANA time zone/],
  ] as const) {
    replace(broken);
    await until('the warning', async () => (await status()).warnings.some((each) => says.test(each)));
    expect(await settings()).toMatchObject({ statusFrequencySeconds: 17, timezone: '' });
    expect((await home.cli('reload')).code).not.toBe(0);
  }
  rmSync(home.config);
  // Commands find the agent by its socket.
  const at = ['--socket', join(home.folder, 'run', 'api.sock')];
  await until('the warning', async () => /is not there any more/.test((await home.cli('status', ...at)).out));
  replace(good.replace('17', '18'));
  await until('the setting', async () => (await settings()).statusFrequencySeconds === 18);
  expect((await status()).warnings).toEqual([]);
});

describe('a stop of the agent', () => {
  let view: View;

  async function running(policy: string): Promise<void> {
    home = new Home({ engineUrl, settings: { shutdownPolicy: policy, shutdownGracePeriodSeconds: 30 } });
    await home.up();
    expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
    view = webView({ uuid: randomUUID(), external: await freePort(), imageId: image, revision: 'r-1' });
    controller.change({ microservices: [view] });
    await untilRuns(controller, view);
  }
  const states = async () => (await home.containers()).map(({ state }) => state);

  test.each(['SIGTERM', 'the command'])(
    'with drain-all stops containers first by %s; the next start is no crash',
    async (way) => {
      await running('drain-all');
      const [before] = await home.containers();
      if (way === 'SIGTERM') await home.end();
      else
        expect(await home.cli('system', 'stop')).toMatchObject({
          code: 0,
          out: 'The agent stops; after its containers\n',
        });
      await home.gone();
      expect(await states()).toEqual(['exited']);
      await home.up();
      await until('the container', async () => (await states())[0] === 'running');
      const [after] = await home.containers();
      expect(after?.id).toBe(before?.id);
      const { out } = await home.cli('ms', 'inspect', view.uuid, '-o', 'json');
      expect(JSON.parse(out).restartCount ?? 0).toBe(0);
    },
  );

  test('with leave-running leaves containers alone, and a drain stops them until the agent starts again', async () => {
    await running('leave-running');
    await home.end();
    expect(await states()).toEqual(['running']);
    await home.up();
    await until('the state', async () => (await status()).daemonStatus === 'RUNNING');
    expect(await home.cli('runtime', 'drain', '--yes', '--timeout', '20')).toMatchObject({ code: 0 });
    expect(await states()).toEqual(['exited']);
    expect((await status()).warnings).toEqual(['drained: nothing is started until the agent starts again']);
    await home.end();
    await home.up();
    await until('the container', async () => (await states())[0] === 'running');
  });
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
    expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
    const { port } = server.address() as AddressInfo;
    expect((await home.cli('config', `controllerUrl=https://127.0.0.1:${port}`)).err).toMatch(
      /self-signed|unable to verify/,
    );
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

describe('bridgeCidr', () => {
  const network = async () => {
    const networks = await callEngine<{ Labels?: Record<string, string>; IPAM?: { Config?: { Subnet?: string }[] } }[]>(
      engineUrl,
      'GET',
      '/networks',
    );
    const own = networks.find(({ Labels }) => Object.values(Labels ?? {}).includes(home.instance));
    return own?.IPAM?.Config?.[0]?.Subnet;
  };

  test('gives the network its addresses when it is made, and never changes one that is there', async () => {
    home = new Home({ engineUrl, settings: { bridgeCidr: '10.213.0.0/24' } });
    await home.up();
    const engine = await home.engine();
    await home.cli('provision', controller.joinString);
    controller.change({
      microservices: [webView({ uuid: randomUUID(), external: await freePort(), imageId: image, revision: 'r' })],
    });
    await until('the network', async () => (await network()) === '10.213.0.0/24');
    await until('the container', async () => (await engine.containers())[0]?.state === 'running');
    edit({ bridgeCidr: '10.214.0.0/24' });
    await home.end();
    await home.up();
    const says = /^network: bridgeCidr 10\.214\.0\.0\/24 has no effect: the network .* has 10\.213\.0\.0\/24/;
    await until('the warning', async () => (await status()).warnings.some((each) => says.test(each)));
    expect(await network()).toBe('10.213.0.0/24');
  });
});
