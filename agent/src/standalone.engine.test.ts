import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { pushImage, saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { type Registry, startRegistry } from '../../hack/registry.ts';
import { sampleImage } from '../../hack/sample.ts';
import { programFiles } from '../../hack/shell-image.ts';
import type {} from '../../hack/testing/provided.ts';
import { Home } from './_home.ts';
import { typeAsWritten, typedOf } from './_typed-page.ts';
import { FakeController } from './link/_fake-controller.ts';

/**
 * docs/standalone.md as a reader types it, on docker, and by night on podman. Only what the page leaves to the reader is done here: archives
 * of images, a registry, a controller.
 */
const PAGE = readFileSync(join(ROOT, 'docs/standalone.md'), 'utf8');

let folder: string;
let registry: Registry;
const controller = new FakeController();
const image = (greeting: string) =>
  sampleImage({
    files: programFiles({ sh: '/bin/sh', cat: '/bin/cat' }),
    env: { PATH: '/bin', GREETING: greeting },
  });

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-standalone-'));
  for (const tag of ['1', '2'])
    writeFileSync(join(folder, `web-${tag}.tar`), saveImage(await image(tag), `example.com/shop/web:${tag}`));
  await using open = await startRegistry({ dir: join(folder, 'open') });
  await pushImage(open.url, 'shop/tool', '1', await image('tool'));
  registry = await startRegistry({ dir: join(folder, 'registry'), images: open.images, auth: 'basic' });
  await controller.listen();
}, 60_000);
afterAll(async () => {
  await controller.close();
  await registry[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

/** What a second look may show, when the first came too early. */
const isLook = (command: string) => /^(curl|skerry-agent (status|ms ls|ms logs|ms inspect|volume ls))/.test(command);

for (const { kind, url } of inject('engines'))
  describe.runIf(kind === 'docker' || process.env.SKERRY_NIGHTLY)(`docs/standalone.md with ${kind}`, () => {
    test('holds as typed', { timeout: 240_000 }, async () => {
      const home = new Home({ engineUrl: url });
      const port = await freePort();
      try {
        await home.up();
        const program = join(home.folder, 'skerry-agent');
        writeFileSync(program, `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'agent/src/main.ts')}' "$@"\n`, {
          mode: 0o755,
        });
        const env = { PATH: `${home.folder}:${process.env.PATH}`, SKERRY_AGENT_CONFIG: home.config };
        const here: readonly (readonly [string, string])[] = [
          ['8081', String(port)],
          ['/var/lib/skerry-agent', home.disk],
          ['registry.example:5000', registry.host],
          ['skerry://controller.example:51121/6f1c2a', controller.joinString],
          ['gw-1 of https://controller.example:51121', `fake of ${controller.url}`],
        ];
        const page = here.reduce((text, [there, own]) => text.replaceAll(there, own), PAGE);
        const all = typedOf(page);
        expect(all.length).toBeGreaterThan(40);
        for (const { command, output } of all) {
          if (command === 'systemctl restart skerry-agent') {
            await home.end();
            await home.up();
            continue;
          }
          // The engine has images of other programs as well.
          const isOnPage = (row: string) => page.includes(row.split(' ', 1)[0] as string);
          const shown = (typed: string, lines: readonly string[]) =>
            typed === 'skerry-agent image ls' ? lines.filter(isOnPage) : lines;
          await typeAsWritten({ command, output }, { folder, env, isLook, patience: 60_000, shown });
        }
      } finally {
        await home.remove();
      }
    });
  });
