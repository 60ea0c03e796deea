import { randomUUID } from 'node:crypto';
import { rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test, vi } from 'vitest';
import { callEngine } from '../../../hack/engine-api.ts';
import { pushImage } from '../../../hack/image.ts';
import { freePort } from '../../../hack/ports.ts';
import { sampleImage } from '../../../hack/sample.ts';
import type {} from '../../../hack/testing/provided.ts';
import { CONTAINER_LABELS } from '../../../src/api/names.ts';
import { Home, OtherContainer } from '../_home.ts';
import { EngineObserver } from '../_observer.ts';
import { pushVersions, untilRuns, webView } from '../_web.ts';
import { CREATE_REASONS, REMOVE_REASONS, RESUME_REASONS, START_REASONS, STOP_REASONS } from '../domain/step.ts';
import type { Container } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import { firstEngine, outsideOf } from '../engines/_outside.ts';
import { FakeController, type View } from '../link/_fake-controller.ts';

/** Other programs use the same engine: they change the agent's containers, and run some with the agent's labels. */

// Tests wait for conditions, so that they pass on a slow machine.
vi.setConfig({ testTimeout: 300_000 });

const on = firstEngine();
const engineUrl = on.url;
const registry = new URL(inject('registryUrl')).host;
const image = (tag: string) => `${registry}/behind/sample:${tag}`;
const BOOT = join(import.meta.dirname, '_boot.ts');

let controller: FakeController;
let home: Home;
let observer: EngineObserver;
let other: OtherContainer;
const otherName = `skerry-${randomUUID()}`;
let uuid: string;
let external: number;

const outside = outsideOf(on);
/** The Docker API, for what the agent's own engine has no word for. */
const engine = <T = unknown>(method: string, path: string, body?: unknown) =>
  callEngine<T>(engineUrl, method, path, body);

beforeAll(async () => {
  await pushVersions(inject('registryUrl'), 'behind/sample', '1', '2');
  for (const tag of ['1', '2']) await outside.pull(image(tag));
  other = await OtherContainer.start(on, { name: otherName, image: image('1') });
});
afterAll(() => other?.remove());

beforeEach(async () => {
  uuid = randomUUID();
  external = await freePort();
  controller = await new FakeController().listen();
  home = new Home({ engineUrl });
  observer = new EngineObserver(on, [uuid]);
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
});
afterEach(async () => {
  observer.close();
  await home.remove();
  await controller.close();
  expect(await other.untouched()).toBe(true);
  expect(observer.doubles).toEqual([]);
});

const view = (change: Partial<View> = {}): View =>
  webView({ uuid, external, imageId: image('1'), revision: 'r-1' }, change);

async function want(...views: View[]): Promise<void> {
  controller.change({ microservices: views });
  for (const each of views) await untilRuns(controller, each);
}

/** Waits until the microservice has exactly one container, which runs under its name and responds. */
const one = () =>
  until(
    'one running container that answers',
    async () => {
      const [container, ...others] = await home.containers();
      if (others.length > 0 || container?.state !== 'running' || container.paused) return false;
      if (container.name !== `skerry-${uuid}` || container.networkId === '') return false;
      return (await fetch(`http://127.0.0.1:${external}/`)).ok && container;
    },
    60_000,
  );

interface Step {
  step: string;
  reasonCode?: string;
}

/** The steps in the agent's log, with their reasons. */
const steps = (): Step[] =>
  home.log
    .split('\n')
    .filter((line) => line.includes('"step"') && line.includes('"INFO"'))
    .map((line) => JSON.parse(line) as Step);

const REASONS: Record<string, object> = {
  create: CREATE_REASONS,
  start: START_REASONS,
  stop: STOP_REASONS,
  resume: RESUME_REASONS,
  remove: REMOVE_REASONS,
};

interface Act {
  act: (container: Container) => Promise<unknown>;
  /** steps that the agent takes, with their reasons */
  does: string[];
  /** a step that it takes only when it reads the engine in the middle of the change */
  may?: string;
  /** the container that runs at the end is the same */
  same: boolean;
  /** the agent's own engine has no such change */
  ofDockerApi?: true;
}

const DOCKER_API = { ofDockerApi: true } as const;
/** The agent's own engine does not say who has ended a container. */
const ENDED = on.kind === 'embedded' ? 'start Crashed' : 'start FoundStopped';

const ACTS: Record<string, Act> = {
  'removes it': {
    act: ({ id }) => outside.remove(id),
    does: ['create Vanished', 'start New'],
    may: 'remove Dead',
    same: false,
  },
  'stops it': {
    act: ({ id }) => outside.stop(id),
    does: [ENDED],
    same: true,
  },
  'kills it': {
    ...DOCKER_API,
    act: ({ id }) => outside.kill(id),
    does: ['start FoundStopped'],
    same: true,
  },
  'restarts it': {
    ...DOCKER_API,
    act: ({ id }) => engine('POST', `/containers/${id}/restart?t=0`),
    does: [],
    may: 'start FoundStopped',
    same: true,
  },
  'pauses it': {
    act: ({ id }) => outside.pause(id),
    does: ['resume Paused'],
    same: true,
  },
  'renames it': {
    act: ({ id }) => outside.rename(id, `mine-${uuid}`),
    does: ['rename'],
    same: true,
  },
  'detaches it from the network': {
    ...DOCKER_API,
    act: ({ id, networkId }) => engine('POST', `/networks/${networkId}/disconnect`, { Container: id, Force: true }),
    does: ['create NetworkChanged', 'stop Replacing', 'start Replacement', 'remove Replaced', 'rename'],
    same: false,
  },
  'limits its memory': {
    ...DOCKER_API,
    // A setting that is changed on the machine stays until the container is created again.
    act: ({ id }) => engine('POST', `/containers/${id}/update`, { Memory: 64 << 20, MemorySwap: 64 << 20 }),
    does: [],
    same: true,
  },
  'moves its tag to another image': {
    act: async () => (await home.engine()).tag(image('2'), image('1')),
    does: [],
    same: true,
  },
  'adds a second container with all its labels': {
    act: async ({ id }) => {
      const labels = await outside.labelsOf(id);
      await outside.run(await outside.make({ name: `copy-${uuid}`, image: image('2'), labels }));
    },
    does: ['stop Duplicate', 'remove Replaced'],
    // The agent's own engine takes longer to start it than the agent takes to remove it.
    ...DOCKER_API,
    same: true,
  },
};

test('a container that another program changed is restored with a documented reason and without counting a crash', async () => {
  await want(view());
  let crashes = 0;
  for (const [name, { act, does, may, same, ofDockerApi }] of Object.entries(ACTS)) {
    if (ofDockerApi && on.kind === 'embedded') continue;
    const before = await one();
    home.log = '';
    await act(before);
    const after = await until(
      `the steps after another program ${name}`,
      async () => {
        const seen = steps()
          .filter(({ step }) => !['image', 'network'].includes(step))
          .map(({ step, reasonCode }) => [step, reasonCode].filter(Boolean).join(' '))
          .filter((text) => text !== may);
        if (seen.length < does.length) return false;
        const container = await one();
        expect(seen).toEqual(does);
        return container;
      },
      60_000,
    );
    expect(after.id === before.id, `${name}: the same container`).toBe(same);
    for (const { step, reasonCode } of steps())
      if (reasonCode) expect(Object.keys(REASONS[step] ?? {}), `${name}: ${step}`).toContain(reasonCode);
    if (does.includes('start Crashed')) crashes++;
    await until(
      `${crashes} crashes after another program ${name}`,
      () => (controller.microservice(uuid)?.restartCount ?? 0) === crashes,
    );
  }
  // The second container of the last change was started by another program.
  expect(observer.doubles.splice(0)).toHaveLength(on.kind === 'embedded' ? 0 : 1);
}, 240_000);

describe('something else on the machine has', () => {
  test('the name for a microservice: its container runs under another name, and the other one is left alone', async () => {
    const taker = await OtherContainer.start(on, { name: `skerry-${uuid}`, image: image('1') });
    try {
      await want(view());
      expect(await home.containers()).toMatchObject([{ state: 'running', name: expect.stringContaining(uuid) }]);
      expect((await home.containers())[0]?.name).not.toBe(`skerry-${uuid}`);
      expect(await taker.untouched()).toBe(true);
      await want();
      await until('ours to go', async () => (await home.containers()).length === 0, 60_000);
      expect(await taker.untouched()).toBe(true);
    } finally {
      await taker.remove();
    }
  });

  test('the port of an edit: the old container keeps running with the reason PortTaken until the port is free', async () => {
    await want(view());
    const before = await one();
    const port = await freePort();
    const taker = createServer((_request, answer) => void answer.end('taken')).listen(port);
    try {
      await until('the other to listen', async () => (await fetch(`http://127.0.0.1:${port}/`)).ok);
      const next = view({ revision: 'r-2', portMappings: [{ internal: 8080, external: port, protocol: 'tcp' }] });
      controller.change({ microservices: [next] });
      const status = await until('the reason', () => {
        const seen = controller.microservice(uuid);
        return seen?.reason === 'PortTaken' && seen;
      });
      expect(status).toMatchObject({ status: 'RUNNING', revision: 'r-1' });
      expect(status.errorMessage).toBe(`port ${port}/tcp of this machine is taken by another program`);
      const now = (await home.containers()).find(({ id }) => id === before.id);
      expect(now).toMatchObject({ state: 'running', startedAt: before.startedAt });
      expect((await fetch(`http://127.0.0.1:${external}/`)).ok).toBe(true);
      taker.closeAllConnections();
      await new Promise((resolve) => taker.close(resolve));
      await want(next);
      expect(controller.microservice(uuid)).toMatchObject({ status: 'RUNNING', errorMessage: '' });
      expect((await fetch(`http://127.0.0.1:${port}/`)).ok).toBe(true);
    } finally {
      taker.close();
    }
  });

  test('labels of the agent from its image: the agent neither adopts nor removes it', async () => {
    await want(view());
    await one();
    const labels = {
      [CONTAINER_LABELS.agent]: home.instance,
      [CONTAINER_LABELS.uuid]: uuid,
      [CONTAINER_LABELS.generation]: '99',
    };
    await pushImage(inject('registryUrl'), 'behind/claims', '1', await sampleImage({ labels }));
    const claiming = `${registry}/behind/claims:1`;
    await outside.pull(claiming);
    const imageId = await (await home.engine()).image(claiming);
    // With the agent's own engine a container has no labels of its image.
    const isOwn = on.kind === 'embedded';
    const pretender = await OtherContainer.start(on, { name: `pretender-${uuid}`, image: claiming });
    try {
      const other = randomUUID();
      controller.change({
        microservices: [view(), view({ uuid: other, name: 'other', imageId: claiming, portMappings: [] })],
      });
      const status = await until('the refusal', () => {
        const seen = controller.microservice(other);
        return seen?.status === (isOwn ? 'RUNNING' : 'FAILED') && seen;
      });
      if (!isOwn) {
        expect(status).toMatchObject({ reason: 'CreateFailed' });
        expect(status.errorMessage).toContain(CONTAINER_LABELS.agent);
      }
      await want(view());
      await one();
      await home.cli('prune');
      await want();
      await until('ours to go', async () => (await home.containers()).length === 0, 60_000);
      expect(await pretender.untouched()).toBe(true);
      expect(await (await home.engine()).image(claiming)).toBe(imageId);
    } finally {
      await pretender.remove();
      observer.doubles.splice(0);
    }
  });
});

test('the watchdog reports foreign containers and does not touch them', async () => {
  controller.change({ config: { watchdogEnabled: true } });
  await want(view());
  await until(
    'the report',
    () => {
      const report = controller.said.refusedSettings?.find(({ field }) => field === 'watchdogEnabled')?.reason ?? '';
      return report.includes(otherName) && !report.includes(uuid);
    },
    90_000,
  );
});

test('after a reboot without a network every saved microservice starts, and no restart is counted', async () => {
  const second = randomUUID();
  await want(view(), view({ uuid: second, name: 'db', portMappings: [] }));
  await until('both', async () => (await home.containers()).filter(({ state }) => state === 'running').length === 2);
  const before = (await home.containers()).map(({ id }) => id).sort();
  await home.end('SIGKILL');
  await controller.close();
  for (const id of before) await outside.stop(id);
  rmSync(join(home.folder, 'run'), { recursive: true, force: true });
  home.log = '';
  await home.up({ imports: [BOOT], env: { SKERRY_BOOT_ID: randomUUID() } });
  const after = await until(
    'both',
    async () => {
      const all = await home.containers();
      return all.filter(({ state }) => state === 'running').length === 2 && all;
    },
    60_000,
  );
  expect(after.map(({ id }) => id).sort()).toEqual(before);
  await until('an answer', async () => (await fetch(`http://127.0.0.1:${external}/`)).ok);
  expect(steps().map(({ step, reasonCode }) => `${step} ${reasonCode}`)).toEqual([
    'start MachineRebooted',
    'start MachineRebooted',
  ]);
  const list = JSON.parse((await home.cli('ms', 'ls', '-o', 'json')).out) as unknown;
  expect(JSON.stringify(list)).not.toMatch(/"restartCount":[1-9]/);
  expect(JSON.parse((await home.cli('status', '-o', 'json')).out)).toMatchObject({
    controllerConnection: 'NOT_CONNECTED',
    runningMicroservices: 2,
  });
});
