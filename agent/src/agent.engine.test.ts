import { randomUUID } from 'node:crypto';
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { pushImage } from '../../hack/image.ts';
import { freePort } from '../../hack/ports.ts';
import { sampleImage } from '../../hack/sample.ts';
import type {} from '../../hack/testing/provided.ts';
import { Home } from './_home.ts';
import { untilRuns, webView } from './_web.ts';
import type { Container } from './engine-port/container.ts';
import { until } from './engines/_contract.ts';
import { outsideOf, type TestEngine } from './engines/_outside.ts';
import { FakeController, type View } from './link/_fake-controller.ts';
import { readText } from './machine/disk.ts';

/**
 * The agent as a process, on real engines, with a fake controller. By day the first engine has all tests and each other one
 * the first test, since the contract represents what depends on the engine; with SKERRY_NIGHTLY all engines have all.
 */

const registry = new URL(inject('registryUrl')).host;
const image = (tag: string) => `${registry}/agent/sample:${tag}`;

/** The engine of the current tests. */
let on: TestEngine;
let controller: FakeController;
let home: Home;
let uuid: string;
let external: number;

const view = (change: Partial<View> = {}): View =>
  webView(
    {
      uuid,
      external,
      imageId: image('1'),
      revision: `r-${JSON.stringify(change).length}-${change.imageId ?? '1'}`,
    },
    change,
  );

beforeAll(async () => {
  for (const tag of ['1', '2', '3']) {
    const sample = await sampleImage({ env: { GREETING: `version ${tag}` } });
    await pushImage(inject('registryUrl'), 'agent/sample', tag, sample);
  }
});

beforeEach(async () => {
  uuid = randomUUID();
  external = await freePort();
  controller = await new FakeController().listen();
  home = new Home({ engineUrl: on.url, settings: { containerEngine: on.kind } });
  return async () => {
    await home.remove();
    await controller.close();
  };
});

async function provisioned(...views: View[]): Promise<void> {
  await home.up();
  expect(await home.cli('provision', controller.joinString)).toMatchObject({ code: 0 });
  controller.change({ microservices: views });
}

/** Provisions the agent with a microservice that runs then. Returns its container. */
async function running(wanted = view()): Promise<Container[]> {
  await provisioned(wanted);
  await untilRuns(controller, wanted);
  return home.containers();
}

/** The only container, with the name of its microservice. */
const onlyContainer = () =>
  until('one container with its name', async () => {
    const [container, ...others] = await home.containers();
    return others.length === 0 && container?.name === `skerry-${uuid}` && container;
  });

const greeting = async () => (await (await fetch(`http://127.0.0.1:${external}/`)).text()).trim();
const untilGreeting = (wanted: string) => until(`the greeting "${wanted}"`, async () => (await greeting()) === wanted);

for (const [place, { kind, url }] of inject('everyEngine').entries())
  describe(kind, () => {
    const more = test.runIf(place === 0 || process.env.SKERRY_NIGHTLY);
    const nightly = process.env.SKERRY_NIGHTLY ? test : () => {};

    beforeAll(() => {
      on = { kind, url };
    });

    test('a new agent starts the container of its first microservice and reports it RUNNING', async () => {
      await provisioned(view());
      const status = await untilRuns(controller, view());
      expect(await until('the greeting', greeting)).toBe('version 1');
      const [container, ...others] = await home.containers();
      expect(others).toEqual([]);
      expect(status).toMatchObject({
        containerId: container?.id,
        imageId: container?.imageId,
        ports: [{ internal: 8080, external, protocol: 'tcp' }],
        name: 'web',
        application: 'shop',
        errorMessage: '',
      });
      expect(controller.said).toMatchObject({ daemonStatus: 'RUNNING', version: '0.1.0' });
      const list = await home.cli('ms', 'ls');
      expect(list.out).toMatch(/shop\s+web\s+RUNNING/);
      expect((await home.cli('ms', 'logs', 'shop.web')).out).toContain('sample listens on :8080');
      const printed = await home.cli('ms', 'exec', 'shop.web', '/sample', 'print', 'one', 'two');
      expect(printed).toEqual({ code: 0, out: 'one\ntwo\n', err: '' });
      expect(await home.cli('ms', 'exec', 'shop.web', '/sample', 'dance')).toEqual({
        ...{ code: 1, out: '' },
        err: 'sample: unknown command "dance"\n',
      });
    });

    describe('a new image', () => {
      more('is pulled, and its container is created, before the old container stops', async () => {
        const [old] = await running();
        const next = view({ imageId: image('2') });
        home.log = '';
        controller.change({ microservices: [next] });
        await untilRuns(controller, next);
        await untilGreeting('version 2');
        expect((await onlyContainer()).id).not.toBe(old?.id);
        const steps = home.log
          .split('\n')
          .filter((line) => line.includes('"step"') && line.includes('"INFO"'))
          .map((line) => (JSON.parse(line) as { step: string }).step);
        expect(steps).toEqual(['image', 'create', 'stop', 'start', 'remove', 'rename']);
      });

      more('that cannot be pulled leaves the old container running, and the reason is reported', async () => {
        const [old] = await running();
        controller.change({ microservices: [view({ imageId: image('missing') })] });
        const status = await until('the reason', () => {
          const seen = controller.microservice(uuid);
          return seen?.reason === 'ImageNotFound' && seen;
        });
        expect(status).toMatchObject({ status: 'RUNNING', revision: view().revision });
        expect(status.errorMessage).toContain('missing');
        expect(await home.containers()).toMatchObject([{ id: old?.id, startedAt: old?.startedAt, state: 'running' }]);
        expect(await greeting()).toBe('version 1');
        controller.change({ microservices: [view({ imageId: image('3') })] });
        await untilRuns(controller, view({ imageId: image('3') }));
        await untilGreeting('version 3');
      });

      more(
        'whose container cannot be started makes the old container start again, and the reason is reported',
        async () => {
          const [old] = await running();
          controller.change({ microservices: [view({ imageId: image('2'), entrypoint: ['/no/such/program'] })] });
          const status = await until('the reason', async () => {
            const seen = controller.microservice(uuid);
            const isBack = seen?.reason === 'StartFailed' && seen.status === 'RUNNING';
            return isBack && (await home.containers()).length === 1 && seen;
          });
          expect(status.revision).toBe(view().revision);
          expect(await home.containers()).toMatchObject([{ id: old?.id, state: 'running' }]);
          expect(await until('the greeting', greeting)).toBe('version 1');
        },
      );
    });

    describe('an agent that is ended', () => {
      more('adopts the running containers when it starts again and changes nothing', async () => {
        const before = await running();
        await home.end();
        controller.said = {};
        await home.up();
        await untilRuns(controller, view());
        expect(await home.containers()).toEqual(before);
      });

      more('and starts again without its database: labels and controller know enough', async () => {
        const before = await running();
        await home.end('SIGKILL');
        for (const part of ['-wal', '-shm']) rmSync(join(home.disk, `agent.db${part}`), { force: true });
        writeFileSync(join(home.disk, 'agent.db'), 'this is not a database, and long enough to be looked at');
        controller.said = {};
        await home.up();
        await untilRuns(controller, view());
        expect(await home.containers()).toEqual(before);
        expect(home.log).toContain('The database was damaged');
      });

      more('and starts with no controller: it keeps up what it was told last', async () => {
        await running();
        await home.end('SIGKILL');
        await controller.close();
        const engine = await home.engine();
        for (const { id } of await home.containers()) {
          await engine.stop(id, 0);
          await engine.remove(id);
        }
        await home.up();
        expect(await until('the greeting', greeting)).toBe('version 1');
        expect(JSON.parse((await home.cli('status', '-o', 'json')).out)).toMatchObject({
          controllerConnection: 'NOT_CONNECTED',
        });
      });

      // With docker these are moments of agent/src/faults/killed.engine.test.ts as well.
      for (const moment of ['create', 'stop', 'start', 'remove'])
        nightly(`by kill -9 before "${moment}" of a replacement, and goes on from there`, async () => {
          await running();
          home.log = '';
          const next = view({ imageId: image('2') });
          controller.change({ microservices: [next] });
          await until(moment, () => home.log.includes(`"step":"${moment}"`));
          await home.end('SIGKILL');
          expect((await home.containers()).filter(({ state }) => state === 'running').length).toBeLessThanOrEqual(1);
          await home.up();
          await untilRuns(controller, next);
          await onlyContainer();
          await untilGreeting('version 2');
          expect(controller.microservice(uuid)?.restartCount ?? 0).toBe(0);
        });
    });

    more('a process that ends by itself is started again later, and the crash is told', async () => {
      const env = [
        { key: 'EXIT_AFTER', value: '300ms' },
        { key: 'EXIT_CODE', value: '3' },
      ];
      await provisioned(view({ env }));
      const status = await until('the crash', () => {
        const seen = controller.microservice(uuid);
        return seen?.lastError !== undefined && seen;
      });
      expect(status).toMatchObject({
        lastError: kind === 'embedded' ? 'reason=Error exitCode=3' : 'exitCode=3 oomKilled=false',
        status: 'RESTARTING',
        reason: 'Crashed',
      });
      await until('the restart', () => controller.microservice(uuid)?.restartCount === 1, 40_000);
    });

    more('a microservice that is no longer wanted is stopped, removed and reported as STOPPED', async () => {
      await running();
      controller.change({ microservices: [] });
      await until('STOPPED', () =>
        controller.reports.some((r) => r.microserviceStatus?.some((m) => m.id === uuid && m.status === 'STOPPED')),
      );
      expect(await home.containers()).toEqual([]);
      await until('an empty list', () => controller.said.microserviceStatus?.length === 0);
    });

    more('a local stop outlasts a restart of the agent and ends with a local start', async () => {
      await running();
      expect((await home.cli('ms', 'stop', 'web')).out).toContain('STOPPED');
      await until('the report', () => controller.microservice(uuid)?.reason === 'StoppedLocally');
      await home.end();
      await home.up();
      expect((await home.containers()).map(({ state }) => state)).toEqual(['exited']);
      expect((await home.cli('ms', 'start', 'web')).out).toContain('RUNNING');
      await untilRuns(controller, view());
    });

    more('a rebuild pulls again and makes a new container, also from the same image', async () => {
      const [old] = await running();
      controller.change({ microservices: [{ ...view(), rebuildCount: 1 }] });
      await until('the echo', () => controller.microservice(uuid)?.rebuildCount === 1);
      const now = await until('one container', async () => {
        const all = await home.containers();
        return all.length === 1 && all;
      });
      expect(now[0]?.id).not.toBe(old?.id);
    });

    more('deprovisioning removes the containers and keeps the volumes', async () => {
      const volume = { hostDestination: 'data', containerDestination: '/data', type: 'volume' } as const;
      await running(view({ volumeMappings: [{ ...volume, accessMode: 'rw', scope: 'private' }] }));
      await fetch(`http://127.0.0.1:${external}/file?path=/data/note`, { method: 'PUT', body: 'kept' });
      expect(await home.cli('deprovision', '--yes')).toMatchObject({ code: 0, out: 'Deprovisioned\n' });
      expect(controller.deleted).toBe(true);
      expect(await home.containers()).toEqual([]);
      expect(readText(join(home.disk, 'volumes', 'data', uuid, 'data', 'note'))).toBe('kept');
      expect(JSON.parse((await home.cli('status', '-o', 'json')).out)).toMatchObject({
        controllerConnection: 'NOT_PROVISIONED',
      });
    });

    more(
      'microservices start in the order of their schedule, each when the one before is healthy, and stop in reverse',
      async () => {
        const later = randomUUID();
        const first = view({
          schedule: 10,
          env: [{ key: 'READY_AFTER', value: '2s' }],
          healthCheck: { test: ['CMD', '/sample', 'check', 'http://127.0.0.1:8080/healthz'], interval: 1, retries: 60 },
        });
        const second = {
          uuid: later,
          name: 'late',
          application: 'shop',
          imageId: image('1'),
          registryId: 1,
          schedule: 90,
        };
        await provisioned(second, first);
        await until('both', () => controller.microservice(later)?.status === 'RUNNING', 60_000);
        expect(controller.microservice(uuid)).toMatchObject({ status: 'RUNNING', healthStatus: 'healthy' });
        const startOf = (id: string) => controller.microservice(id)?.startTime ?? 0;
        expect(startOf(later) - startOf(uuid)).toBeGreaterThan(2000);
        home.log = '';
        controller.change({ microservices: [] });
        await until('the end', async () => (await home.containers()).length === 0, 60_000);
        const removed = [...home.log.matchAll(/"microservice":"([^"]+)","step":"remove"/g)].map(([, id]) => id);
        expect([...new Set(removed)]).toEqual([later, uuid]);
      },
    );

    more(
      'fields that the engine cannot honour are reported with the microservice, which runs without them',
      async () => {
        const fields = { docker: ['env'], podman: ['runtime', 'env'], embedded: ['env'] };
        // docker has runc; podman takes no choice, and has another one
        const runtime = { docker: 'runc', podman: 'kata', embedded: 'runc' }[kind];
        await provisioned(view({ runtime, env: [{ key: 'SKERRY_ROLE', value: 'king' }] }));
        const status = await until('the report', () => {
          const seen = controller.microservice(uuid);
          return seen?.status === 'RUNNING' && seen;
        });
        expect(status.notHonoured?.map(({ field }) => field)).toEqual(fields[kind]);
      },
    );

    more(
      'a container that a person pauses is resumed at once, and one that a person removes is created again',
      async () => {
        const [before] = await running();
        home.log = '';
        const outside = outsideOf({ kind, url });
        await outside.pause(before?.id ?? '');
        await until('it to go on', () => home.log.includes('"step":"resume"'), 20_000);
        expect(await until('the greeting', greeting)).toBe('version 1');
        expect(await home.containers()).toMatchObject([{ id: before?.id, startedAt: before?.startedAt }]);
        await outside.remove(before?.id ?? '');
        const [after] = await until(
          'another',
          async () => {
            const all = await home.containers();
            return all[0]?.state === 'running' && all[0].id !== before?.id && all;
          },
          20_000,
        );
        await until('the report', () => controller.microservice(uuid)?.containerId === after?.id);
      },
    );
  });
