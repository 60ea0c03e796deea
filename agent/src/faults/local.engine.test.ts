import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, test } from 'vitest';
import { freePort } from '../../../hack/ports.ts';
import type {} from '../../../hack/testing/provided.ts';
import { EngineObserver, Home } from '../_home.ts';
import { pushVersions } from '../_web.ts';
import type { Container } from '../engine-port/container.ts';
import { until } from '../engines/_contract.ts';
import { manifestOf } from '../local/_manifest.ts';

/** Microservices that are deployed on a machine without a controller, on an engine. */

const engineUrl = inject('engineUrl');
const registry = new URL(inject('registryUrl')).host;
const image = (tag: string) => `${registry}/own/sample:${tag}`;
const FAILPOINTS = join(import.meta.dirname, '_failpoints.ts');
const LONG = Boolean(process.env.SKERRY_NIGHTLY);

const folder = mkdtempSync(join(tmpdir(), 'skerry-own-'));
beforeAll(() => pushVersions(inject('registryUrl'), 'own/sample', '1', '2'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let home: Home;
let port: number;
beforeEach(async () => {
  home = new Home({ engineUrl });
  port = await freePort();
});
afterEach(() => home.remove());

function manifest(tag: string): string {
  const file = join(folder, `${tag}.yaml`);
  const ports = [{ internal: 8080, external: port }];
  const volumes = [{ hostDestination: 'data', containerDestination: '/data', accessMode: 'rw', type: 'volume' }];
  writeFileSync(file, manifestOf('web', image(tag), { ports, volumes }));
  return file;
}

const deploy = (tag: string) => home.cli('deploy', '-f', manifest(tag));
const greeting = async () => (await fetch(`http://127.0.0.1:${port}/`)).text();
const only = async (): Promise<Container> => {
  const containers = await home.containers();
  expect(containers).toHaveLength(1);
  return containers[0] as Container;
};

test('a microservice is deployed, updated, stopped, supervised by the next agent, and removed', async () => {
  await home.up();
  expect(await deploy('1')).toMatchObject({ code: 0, out: 'web: deployed\n' });
  expect(await greeting()).toContain('1');
  const first = await only();
  expect(await deploy('1')).toMatchObject({ code: 0 });
  expect((await only()).id).toBe(first.id);
  expect(await deploy('2')).toMatchObject({ code: 0 });
  expect(await greeting()).toContain('2');
  const second = await only();
  expect(second.id).not.toBe(first.id);

  await home.end();
  await upWithoutDatabase('RUNNING');
  expect(await home.cli('ms', 'stop', 'skerry-agent.web')).toMatchObject({ code: 0 });
  await home.end('SIGKILL');
  await upWithoutDatabase('STOPPED');
  expect(await only()).toMatchObject({ id: second.id, state: 'exited' });
  expect(await home.cli('ms', 'start', 'skerry-agent.web')).toMatchObject({ code: 0 });
  expect(await only()).toMatchObject({ id: second.id, state: 'running' });

  expect(await home.cli('ms', 'rm', 'skerry-agent.web')).toMatchObject({ code: 0 });
  expect(await home.containers()).toEqual([]);
  expect((await home.cli('ms', 'ls')).out).toBe('No microservices on this node\n');
});

/** Starts the agent again, and waits until it shows the microservice in a state. */
async function upWithoutDatabase(state: string): Promise<void> {
  for (const part of ['', '-wal', '-shm']) rmSync(join(home.disk, `agent.db${part}`), { force: true });
  await home.up();
  await until(state, async () => (await home.cli('ms', 'ls')).out.includes(state), 60_000);
}

interface Case {
  /** the tag that runs before; undefined: nothing */
  from: string | undefined;
  act(): Promise<{ code: number; out: string; err: string }>;
  /** the tag that runs afterwards; undefined: nothing */
  to: string | undefined;
  /** by night only */
  isLong?: true;
}

const CASES: Record<string, Case> = {
  'the first apply': { from: undefined, act: () => deploy('1'), to: '1', isLong: true },
  'an apply of another manifest': { from: '1', act: () => deploy('2'), to: '2' },
  'a removal': { from: '1', act: () => home.cli('ms', 'rm', 'skerry-agent.web'), to: undefined, isLong: true },
};

describe('an agent that is killed at any write of', () => {
  for (const [name, { from, act, to, isLong }] of Object.entries(CASES))
    test.skipIf(isLong && !LONG)(
      `${name} reaches its end once it is asked again, and two containers never run`,
      {
        timeout: 900_000,
      },
      async () => {
        let deaths = 0;
        await home.up({ imports: [FAILPOINTS] });
        const arm = (at: number) =>
          new Promise<void>((resolve) => {
            home.process?.once('message', () => resolve());
            home.process?.send({ arm: at, of: 'all' });
          });
        // Every moment by night; by day the moments of the row, and every sixth after them.
        for (let at = 1; ; at += LONG || at < 2 ? 1 : 6) {
          if (from) expect((await deploy(from)).code).toBe(0);
          else if ((await home.containers()).length > 0)
            expect((await home.cli('ms', 'rm', 'skerry-agent.web')).code).toBe(0);
          const uuids = (await home.containers()).map(({ uuid }) => uuid);
          const observer = new EngineObserver(engineUrl, uuids);
          await observer.read();
          await arm(at);
          const { code } = await act();
          const isDead = () => home.process?.signalCode === 'SIGKILL';
          // The command may notice the end of the agent before this process does.
          if (code !== 0) await until(`the end of the agent at moment ${at}`, isDead);
          const wasKilled = isDead();
          if (!wasKilled) expect(code).toBe(0);
          else {
            deaths++;
            await home.up({ imports: [FAILPOINTS] });
            const again = await act();
            // What the former process had finished is not there any more.
            expect([0, ...(to === undefined ? [4] : [])]).toContain(again.code);
          }
          await until(
            `the end after moment ${at}`,
            async () => (await home.containers()).length === (to ? 1 : 0),
            60_000,
          );
          if (to) expect(await greeting()).toContain(to);
          expect((await observer.read()).doubles).toEqual([]);
          observer.close();
          if (!wasKilled) break;
          await arm(0);
        }
        expect(deaths).toBeGreaterThanOrEqual(2);
      },
    );
});
