import { randomBytes, randomUUID } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { freePort } from '../../../../hack/ports.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { Home } from '../../_home.ts';
import { pushVersions, webView } from '../../_web.ts';
import { until } from '../../engines/_contract.ts';
import { outsideOf, suiteEngines } from '../../engines/_outside.ts';
import { FakeController } from '../../link/_fake-controller.ts';
import { TestHub } from './_hub.ts';
import { makeArtifact } from './_machine.ts';

/** The agent as a process on real engines: a model arrives, is bound, and gets a new revision without a new container. */

const registry = new URL(inject('registryUrl')).host;
const image = `${registry}/artifacts/sample:1`;
/** Nothing of it depends on the engine but mounts, which the contract has. */
const ENGINES = suiteEngines().filter((_, place) => place === 0 || process.env.SKERRY_NIGHTLY);
let hub: TestHub;

beforeAll(async () => {
  hub = await TestHub.start();
  await pushVersions(inject('registryUrl'), 'artifacts/sample', '1');
  for (const each of ENGINES) await outsideOf(each).pull(image);
});
afterAll(() => hub?.[Symbol.asyncDispose]());

async function fixture(engineUrl: string) {
  const home = new Home({ engineUrl });
  const controller = await new FakeController().listen();
  onTestFinished(async () => {
    await home.remove();
    await controller.close();
  });
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
  const uuid = randomUUID();
  const external = await freePort();
  const items = [{ name: 'tiny' }];
  const view = webView(
    { uuid, external, imageId: image, revision: 'r-1' },
    { models: { bindPath: '/models', permissions: 'ro', items } },
  );
  const file = async (path: string) => {
    const response = await fetch(`http://127.0.0.1:${external}/file?path=${path}`);
    return response.ok ? response.text() : `status ${response.status}`;
  };
  return { home, controller, uuid, view, file };
}

describe.each(ENGINES)('on $kind', ({ url }) => {
  test('a model arrives, is bound, and gets a new revision in the running container', async () => {
    const { home, controller, uuid, view, file } = await fixture(url);
    const repo = `team/${randomUUID()}`;
    const model = makeArtifact({ repo, revision: 'v1' });
    const weights = randomBytes(2_000_000);
    controller.change({ registries: [{ id: 7, url: hub.url, type: 'hub' }], models: [model], microservices: [view] });
    await until('the failure', () => controller.microservice(uuid)?.status === 'FAILED');
    expect(controller.microservice(uuid)).toMatchObject({
      reason: 'ArtifactFailed',
      errorMessage: `model tiny: the repository ${repo} at v1 does not exist`,
    });
    expect(controller.said.modelStatus?.[0]).toMatchObject({ name: 'tiny', state: 'Failed' });
    expect(await home.containers()).toEqual([]);

    hub.commit(`models/${repo}`, { 'version.txt': 'one', 'weights.bin': weights }, 'v1');
    await until('RUNNING', () => controller.microservice(uuid)?.status === 'RUNNING', 90_000);
    expect(await file('/models/tiny/version.txt')).toBe('one');
    await until('Ready', () => controller.said.modelStatus?.[0]?.state === 'Ready');
    expect(controller.said).toMatchObject({ activeModels: 1, activeKnowledge: 0 });
    const [before] = await home.containers();

    const commit = hub.commit(`models/${repo}`, { 'version.txt': 'two', 'weights.bin': weights }, 'v2');
    controller.change({ models: [{ ...model, revision: 'v2' }] });
    await until('the new revision in the container', async () => (await file('/models/tiny/version.txt')) === 'two');
    await until('its report', () => controller.said.modelStatus?.[0]?.resolvedRevision === commit);
    const [after] = await home.containers();
    expect([after?.id, after?.startedAt]).toEqual([before?.id, before?.startedAt]);

    hub.commit('models/team/second', { 'b.txt': 'second' });
    controller.change({
      models: [{ ...model, revision: 'v2' }, makeArtifact({ name: 'second', repo: 'team/second' })],
      microservices: [
        { ...view, models: { bindPath: '/models', permissions: 'ro', items: [{ name: 'tiny' }, { name: 'second' }] } },
      ],
    });
    await until('the second model', async () => (await file('/models/second/b.txt')) === 'second');
    expect((await home.containers())[0]?.id).toBe(before?.id);

    controller.change({ microservices: [] });
    await until('the end of the container', async () => (await home.containers()).length === 0);
    await until('no projection', () => !existsSync(join(home.disk, 'volumes/models', uuid)));
  });
});
