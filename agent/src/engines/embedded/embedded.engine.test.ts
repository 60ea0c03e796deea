import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { saveImage } from '../../../../hack/image.ts';
import { shellImage } from '../../../../hack/shell-image.ts';
import type {} from '../../../../hack/testing/provided.ts';
import { silentLog } from '../../../../src/lib/log.ts';
import type { MicroserviceView } from '../../../../src/wire/agent.ts';
import type { EngineFacts } from '../../engine-port/facts.ts';
import { systemClock } from '../../machine/clock.ts';
import { ownLimits } from '../../machine/machine.ts';
import { HealthChecks } from '../../supervise/health-checks.ts';
import { cleanUp, findContainer, makeSpec, until } from '../_contract.ts';
import { Containerd } from './client.ts';
import { EmbeddedEngine } from './engine.ts';
import { ContainerRecords } from './record.ts';
import { CRI } from './wire/cri.ts';

/** What the agent's own engine promises beyond the contract of all engines. */

const IMAGE = 'skerry.test/shell:1';
const run = promisify(execFile);

for (const { url } of inject('everyEngine').filter(({ kind }) => kind === 'embedded'))
  describe('the embedded engine', () => {
    const instance = randomUUID().replaceAll('-', '');
    const engine = new EmbeddedEngine({ url, instance });
    const containerd = new Containerd(url);
    let facts: EngineFacts;
    beforeAll(async () => {
      facts = await engine.connect();
      const archive = async function* () {
        yield saveImage(shellImage(), IMAGE);
      };
      await engine.loadImages(archive());
    });
    afterAll(() => cleanUp(engine));

    async function make(view: Partial<MicroserviceView>) {
      const spec = makeSpec({ facts, instance, limits: ownLimits(), view: { imageId: IMAGE, ...view } });
      const { id } = await engine.create(spec);
      return id;
    }
    /** The program that the shim of a container starts, as containerd names it. */
    async function programOf(id: string): Promise<string | undefined> {
      const {
        run: { containerId = '' },
      } = await new ContainerRecords(containerd).get(id);
      const socket = url.replace('unix://', '');
      const { stdout } = await run('ctr', [
        ...['--address', socket, '--namespace', 'k8s.io'],
        'containers',
        'info',
        containerId,
      ]);
      const { Runtime } = JSON.parse(stdout) as { Runtime: { Options: { value: string } } };
      return /\/(crun|runc)/.exec(Buffer.from(Runtime.Options.value, 'base64').toString('latin1'))?.[1];
    }
    const sh = (script: string) => ['/bin/sh', '-c', script];
    async function printed(id: string, script: string): Promise<string> {
      const program = await engine.exec(id, { command: sh(script), tty: false });
      let text = '';
      for await (const { data } of program.output()) text += Buffer.from(data);
      return text;
    }

    test('a container has a sandbox only once it is started, and no other one when it starts again', async () => {
      const id = await make({ commands: sh('sleep 3000') });
      const sandboxes = async () =>
        (await containerd.call(CRI.listSandboxes, {})).items.filter(({ labels }) => labels['skerry.dev/record'] === id);
      expect(await sandboxes()).toEqual([]);
      await engine.start(id);
      const [first] = await sandboxes();
      expect((await findContainer(engine, id)).podId).toBe(first?.id);
      await engine.stop(id, 0);
      await engine.start(id);
      const [second, ...others] = await sandboxes();
      expect(others).toEqual([]);
      expect(second?.id).not.toBe(first?.id);
      expect((await findContainer(engine, id)).podId).toBe(second?.id);
    });

    test('a name leads to the container that has it now', async () => {
      const asker = await make({ commands: sh('sleep 3000') });
      const other = await make({ application: 'plant', name: 'other', commands: sh('sleep 3000') });
      await engine.start(asker);
      for (let time = 0; time < 2; time++) {
        await engine.start(other);
        const { ip } = await findContainer(engine, other);
        expect(await printed(asker, 'cat /etc/hosts')).toContain(`${ip}\tplant.other plant.other.svc.bridge.local\n`);
        await engine.stop(other, 0);
        expect(await printed(asker, 'cat /etc/hosts')).not.toContain('plant.other');
      }
    });

    test('an agent that starts again knows the health of a container before its first check', async () => {
      const id = await make({
        commands: sh('sleep 3000'),
        healthCheck: { test: ['CMD', '/bin/sh', '-c', 'true'], interval: 1 },
      });
      await engine.start(id);
      const checks = new HealthChecks({ engine, clock: systemClock(), log: silentLog, changed: () => {} });
      const look = async (of: EmbeddedEngine) => (await of.containers()).filter((each) => each.id === id);
      expect(await look(engine)).toMatchObject([{ health: 'starting' }]);
      checks.follow(await look(engine));
      await until('healthy', async () => (await look(engine))[0]?.health === 'healthy');
      checks.stop();
      const again = new EmbeddedEngine({ url, instance });
      await again.connect();
      expect(await look(again)).toMatchObject([{ health: 'healthy' }]);
    });

    test('the sandbox of a record that was lost is removed at the next connection', async () => {
      const id = await make({ commands: sh('sleep 3000') });
      await engine.start(id);
      const { podId } = await findContainer(engine, id);
      await new ContainerRecords(containerd).remove(id);
      await engine.connect();
      const left = (await containerd.call(CRI.listSandboxes, {})).items.map((each) => each.id);
      expect(left).not.toContain(podId);
    });

    test('a container runs on each runtime that the engine has', async () => {
      for (const runtime of facts.runtimes) {
        const id = await make({ runtime, commands: sh('sleep 3000') });
        await engine.start(id);
        expect(await printed(id, 'echo here')).toBe('here\n');
        expect(await programOf(id)).toBe(runtime);
      }
      expect(facts.runtimes).toEqual(['crun', 'runc']);
      await expect(make({ runtime: 'kata' }).then((id) => engine.start(id))).rejects.toThrow(/runtime kata is unknown/);
    });

    test.runIf(process.env.SKERRY_CONTAINERD)('a container has the devices of CDI that it names', async () => {
      const specification = {
        ...{ cdiVersion: '0.5.0', kind: 'skerry.test/lamp' },
        devices: ['one', 'two'].map((name) => ({
          name,
          containerEdits: {
            env: [`LAMP=${name}`],
            deviceNodes: [{ path: `/dev/lamp-${name}`, hostPath: '/dev/null' }],
          },
        })),
      };
      mkdirSync('/var/run/cdi', { recursive: true });
      const file = `/var/run/cdi/skerry-${instance}.json`;
      writeFileSync(file, JSON.stringify(specification));
      onTestFinished(() => rmSync(file));
      const id = await make({ cdiDevices: ['skerry.test/lamp=two'], commands: sh('sleep 3000') });
      await engine.start(id);
      expect(await printed(id, 'echo $LAMP; echo /dev/lamp-*')).toBe('two\n/dev/lamp-two\n');
    });

    test('a container that was killed for its memory says so', async () => {
      const script = 's=x; while :; do s=$s$s; done';
      const id = await make({ commands: sh(script), memoryLimit: 16, memorySwap: 16 });
      await engine.start(id);
      const seen = await until('the end', async () => {
        const look = await findContainer(engine, id);
        return look.state === 'exited' && look;
      });
      expect(seen).toMatchObject({ oomKilled: true, reason: 'OOMKilled', exitCode: 137 });
    });
  });
