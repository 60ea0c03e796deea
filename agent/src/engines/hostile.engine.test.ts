import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, onTestFinished, test } from 'vitest';
import { buildImage, type Image, pushImage, saveImage } from '../../../hack/image.ts';
import { shellImage } from '../../../hack/shell-image.ts';
import type {} from '../../../hack/testing/provided.ts';
import type { MicroserviceView } from '../../../src/wire/agent.ts';
import { temporaryFolder } from '../../../testing/temporary-folder.ts';
import { EngineError } from '../engine-port/error.ts';
import type { EngineFacts } from '../engine-port/facts.ts';
import { ownLimits } from '../machine/machine.ts';
import { cleanUp, findContainer, INSTANCE, makeSpec, prepare, until } from './_contract.ts';
import { imageThroughLink, imageWithDevice, imageWithHardLink } from './_hostile-image.ts';
import { openTestEngine, processesIn } from './_outside.ts';

/** Containers and images that mean harm, on every engine. That a container which fills its log is bounded is a row of the fields. */

const push = async (name: string, image: Image) =>
  (await pushImage(inject('registryUrl'), `hostile/${name}`, '1', image)).reference;
let shell: string;
beforeAll(async () => {
  shell = await push('shell', shellImage());
});

for (const tested of inject('everyEngine'))
  describe(tested.kind, () => {
    const engine = openTestEngine(tested, INSTANCE);
    let facts: EngineFacts;
    beforeAll(async () => {
      facts = await prepare(engine, shell);
    });
    afterAll(() => cleanUp(engine));

    async function started(view: Partial<MicroserviceView>) {
      const { id } = await engine.create(makeSpec({ facts, limits: ownLimits(), view: { imageId: shell, ...view } }));
      // Some tests have removed it.
      onTestFinished(async () => {
        if (!(await engine.containers()).some((each) => each.id === id)) return;
        await engine.stop(id, 0);
        await engine.remove(id);
      });
      await engine.start(id);
      return { id, pid: (await findContainer(engine, id)).pid };
    }
    const sh = (script: string) => ['/bin/sh', '-c', script];

    async function linesOf(id: string): Promise<string[]> {
      const lines: string[] = [];
      for await (const { line } of engine.logs(id, { tail: 100 })) lines.push(line);
      return lines;
    }

    /** What a container prints that ends by itself. */
    async function printed(view: Partial<MicroserviceView>): Promise<string> {
      const { id } = await started(view);
      await until('the end', async () => (await findContainer(engine, id)).state === 'exited');
      return (await linesOf(id)).join('\n');
    }

    test('a container that forks without end stops at its limit of processes, and all of them end with it', async () => {
      const bomb = 'trap "" TERM HUP; sh -c "while :; do sleep 3000 & done" 2> /dev/null; echo full; exec sleep 3000';
      const limits = { nproc: { soft: 100, hard: 100 } };
      // A user has the limit on the whole machine: no other process has this user.
      const { id, pid } = await started({ commands: sh(bomb), ulimits: limits, runAsUser: '64321:64321' });
      await until('the limit', async () => (await linesOf(id)).includes('full'));
      const namespace = readlinkSync(`/proc/${pid}/ns/pid`);
      const size = processesIn(namespace).length;
      expect(size).toBeGreaterThan(50);
      expect(size).toBeLessThanOrEqual(101);
      await engine.stop(id, 0);
      await until('the end of all', () => processesIn(namespace).length === 0);
      await engine.remove(id);
    });

    test('a container whose files another process holds is stopped and removed', async () => {
      const { id, pid } = await started({ commands: sh('exec sleep 3000') });
      const holder = spawn('sleep', ['3000'], { cwd: `/proc/${pid}/root/tmp`, stdio: 'ignore' });
      onTestFinished(() => void holder.kill('SIGKILL'));
      await until('the holder', () => readFileSync(`/proc/${holder.pid}/comm`, 'utf8') === 'sleep\n');
      await engine.stop(id, 0);
      await engine.remove(id);
      expect((await engine.containers()).map((each) => each.id)).not.toContain(id);
    });

    test('an image with a device and a program of root gives neither to its container', async () => {
      const image = await push('device', imageWithDevice());
      await engine.pull({ reference: image, platform: '' });
      onTestFinished(() => engine.removeImage(image));
      const script = 'test -c /tmp/fuse && echo device; (: < /tmp/fuse) && echo opened; asroot /proc/self/status';
      const seen = await printed({ imageId: image, commands: sh(script), runAsUser: '1000', capDrop: ['ALL'] });
      expect(seen).toContain('device\n');
      expect(seen).toMatch(/Uid:\s+1000\s+0\s/);
      expect(seen).not.toContain('opened');
      expect(seen).toMatch(/CapEff:\s+0+\n/);
      expect(seen).toMatch(/CapBnd:\s+0+\n/);
    });

    test('an archive with another layer than its configuration names is refused, and leaves no name', async () => {
      const name = `${new URL(inject('registryUrl')).host}/hostile/loaded:1`;
      const content = randomBytes(20_000);
      const archive = saveImage(buildImage({ files: [{ path: '/ballast', content }], compression: 0 }), name);
      const at = archive.indexOf(content.subarray(0, 100)) + 10_000;
      archive[at] = (archive[at] ?? 0) ^ 0xff;
      const bytes = async function* () {
        yield archive;
      };
      await expect(engine.loadImages(bytes())).rejects.toThrow(EngineError);
      expect(await engine.image(name)).toBeUndefined();
    });

    test('an image whose links lead out of it neither writes nor reads there', async () => {
      const folder = temporaryFolder();
      const secret = join(folder, 'secret');
      writeFileSync(secret, 'canary');
      for (const made of [imageThroughLink(folder), imageWithHardLink(secret)]) {
        const image = await push(`links-${tested.kind}`, made);
        const pulled = await engine.pull({ reference: image, platform: '' }).catch((error: unknown) => error);
        // An engine that does not refuse the image keeps its links inside.
        if (pulled instanceof EngineError) continue;
        expect(pulled).toMatch(/^sha256:/);
        const script = 'cat /tmp/secret /tmp/out/secret; echo over';
        const seen = await printed({ imageId: image, commands: sh(script) }).catch((error: unknown) => error);
        if (!(seen instanceof EngineError)) expect(seen).toContain('over');
        expect(String(seen)).not.toContain('canary');
        await engine.removeImage(image).catch(() => {});
      }
      expect(existsSync(join(folder, 'planted'))).toBe(false);
      expect(readFileSync(secret, 'utf8')).toBe('canary');
    });
  });
