import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { afterEach, beforeAll, beforeEach, expect, inject, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { Home, OtherContainer } from '../_home.ts';
import { EngineObserver } from '../_observer.ts';
import { pushVersions, webView } from '../_web.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine } from '../engines/_outside.ts';
import { FakeController } from '../link/_fake-controller.ts';

/** The agent loses its data, and its node is provisioned again on the same machine. No microservice runs twice. */

const on = firstEngine();
const engineUrl = on.url;
const image = `${new URL(inject('registryUrl')).host}/lost/sample:1`;

let controller: FakeController;
let home: Home;

beforeAll(() => pushVersions(inject('registryUrl'), 'lost/sample', '1'));
beforeEach(async () => {
  controller = await new FakeController().listen();
  home = new Home({ engineUrl });
});
afterEach(async () => {
  await home.remove();
  await controller.close();
});

test('a new installation of a node adopts its containers, and names those of other nodes, which a command removes', async () => {
  const uuid = randomUUID();
  const view = webView({ uuid, imageId: image, external: await freePort() });
  controller.microservices = [view];
  await home.up();
  await home.cli('provision', controller.joinString);
  await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING', 60_000);
  const [before] = await home.containers();
  const observer = new EngineObserver(on, [uuid]);
  (await observer.read()).forget();

  await home.end('SIGKILL');
  rmSync(home.disk, { recursive: true });
  controller.publicKey = undefined;
  controller.said = {};
  const other = await OtherContainer.start(on, {
    name: `lost-${uuid}`,
    image,
    labels: { [CONTAINER_LABELS.agent]: 'f'.repeat(32), [CONTAINER_LABELS.node]: 'another-node' },
  });
  await home.up();
  await home.cli('provision', controller.joinString);
  await until('RUNNING again', () => controller.microservice(uuid)?.status === 'RUNNING', 60_000);
  expect(controller.microservice(uuid)?.containerId).toBe(before?.id);
  expect((await observer.read()).starts).toEqual(new Map());
  observer.close();

  expect((await home.cli('orphans')).out).toContain(`lost-${uuid}`);
  expect((await home.cli('orphans', `lost-${uuid}`, '--remove')).code).not.toBe(0);
  expect(await other.untouched()).toBe(true);
  expect((await home.cli('orphans', `lost-${uuid}`, '--remove', '--yes')).out).toContain(`lost-${uuid}: removed`);
  await expect(other.untouched()).rejects.toThrow();
  expect((await home.containers()).map(({ id }) => id)).toEqual([before?.id]);
});
