import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createServer, type Server } from 'node:tls';
import { afterEach, beforeAll, beforeEach, expect, inject, test, vi } from 'vitest';
import { fakeTime } from '../../../hack/faketime.ts';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { Home } from '../_home.ts';
import { pushVersions, untilRuns, webView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';

/** The agent as a process with a wrong wall clock (libfaketime), on a real engine. Its timers are not affected. */

// Tests wait for conditions, so that they pass on a slow machine.
vi.setConfig({ testTimeout: 300_000 });

const engineUrl = firstEngine().url;
const image = (tag: string) => `${new URL(inject('registryUrl')).host}/clock/sample:${tag}`;
const certificate = (name: string) => readFileSync(join(import.meta.dirname, '../doctor/testdata', name));

let controller: FakeController;
let home: Home;
const uuid = randomUUID();
let external: number;
let serial = 0;

const view = (change: Partial<View> = {}): View =>
  webView({ uuid, external, imageId: image('1'), revision: `r-${++serial}` }, change);

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'clock/sample', '1', '2');
  await fakeTime('+0s', (text) => process.stderr.write(`${text}\n`));
}, 300_000);
beforeEach(async () => {
  external = await freePort();
  controller = await new FakeController().listen();
});
afterEach(async () => {
  await home.remove();
  await controller.close();
});

async function want(wanted: View): Promise<void> {
  controller.change({ microservices: [wanted] });
  await untilRuns(controller, wanted);
}

const status = async () => JSON.parse((await home.cli('status', '-o', 'json')).out) as Record<string, string>;

/** Stops agent and containers, as a power cut does, and starts the agent with another clock. */
async function restart(clock: string): Promise<void> {
  await home.end('SIGKILL');
  const engine = await home.engine();
  for (const { id } of await engine.containers()) await engine.stop(id, 0);
  controller.said = {};
  home.start({ env: await fakeTime(clock) });
}

const CLOCKS = [
  { name: 'a day and an hour ahead', clock: '+90000s', own: (now: number) => now + 90_000_000 },
  { name: 'an hour behind', clock: '-3600s', own: (now: number) => now - 3600_000 },
  { name: 'at 1970', clock: '@1970-01-01 00:10:00', own: () => 600_000 },
];

test('an agent whose clock is a day ahead, an hour behind or at 1970 works, destroys no volume early, and reports both times', async () => {
  home = new Home({ engineUrl });
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
  await want(view());
  mkdirSync(join(home.disk, 'volumes/shared/old'), { recursive: true });
  expect(await unwantedVolumes()).toBe('no, for');
  for (const { name, clock, own } of CLOCKS) {
    const began = Date.now();
    await restart(clock);
    const text = await until(
      `the warning of a clock ${name}`,
      () =>
        /clock: this machine's said (\S+) when the controller's said (\S+)/.exec(
          controller.said.warningMessage ?? '',
        ) ?? undefined,
      60_000,
    );
    const near = (told: string | undefined, expected: number) =>
      expect(Math.abs(Date.parse(told ?? '') - expected), `${told} when it is ${name}`).toBeLessThan(120_000);
    near(text[1], own(began));
    near(text[2], began);
    // The containers run again, an edit is carried out, and the controller accepts the tokens.
    await want(view());
    await want(view({ imageId: image('2') }));
    const [container, ...others] = await until('one container', async () => {
      const all = await home.containers();
      return all.length === 1 && all;
    });
    expect(others).toEqual([]);
    expect(container).toMatchObject({ state: 'running' });
    expect(controller.microservice(uuid)?.restartCount ?? 0).toBe(0);
    expect((await status()).controllerConnection).toBe('OK');
    await noVolumeGoes();
  }
  // The clock is right again: it is no longer reported.
  await restart('+0s');
  await want(view());
  await until('no warning', () => controller.said.warningMessage === '', 60_000);
  await noVolumeGoes();
});

/** What the list of volumes says of a volume that nothing wants. */
const unwantedVolumes = async () => /no, for/.exec((await home.cli('volume', 'ls')).out)?.[0];

async function noVolumeGoes(): Promise<void> {
  const { code, out } = await home.cli('volume', 'prune', '--yes', '-o', 'json');
  expect([code, JSON.parse(out)]).toMatchObject([0, { dryRun: false, deleted: [], skipped: [{ name: 'old' }] }]);
}

test("an agent whose controller's certificate is not valid yet runs its workloads, and the error names both times", async () => {
  const tunnel = await tlsInFrontOf(controller);
  const { port } = tunnel.address() as { port: number };
  home = new Home({ engineUrl, settings: { controllerCert: 'ca.pem' } });
  writeFileSync(join(home.folder, 'ca.pem'), certificate('ca.pem'));
  await home.up();
  const join_ = controller.joinString.replace(/\?.*$/, '').replace(/:\d+\//, `:${port}/`);
  expect(await home.cli('provision', `${join_}?tls=1`)).toMatchObject({ code: 0 });
  await want(view());
  await restart('@1970-01-01 00:10:00');
  const told = await until(
    'the trouble with the certificate',
    async () => {
      const now = await status();
      return now.controllerConnection === 'BROKEN_CERTIFICATE' && now.connectionError;
    },
    60_000,
  );
  expect(told).toMatch(
    /is valid from 2026-01-01T00:00Z to 2076-01-01T00:00Z, and the clock of this machine says 1970-01-01T00:1\dZ/,
  );
  expect(await until('an answer', async () => (await fetch(`http://127.0.0.1:${external}/`)).status, 30_000)).toBe(200);
  tunnel.close();
});

/** The controller behind TLS. */
async function tlsInFrontOf({ url }: FakeController): Promise<Server> {
  const server = createServer({ key: certificate('server.key'), cert: certificate('good.pem') }, (outer) => {
    const inner = connect(Number(new URL(url).port), '127.0.0.1');
    inner.on('error', () => outer.destroy());
    outer.on('error', () => inner.destroy());
    outer.pipe(inner).pipe(outer);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return server;
}
