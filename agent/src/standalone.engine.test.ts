import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { pushImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { type Registry, startRegistry } from '../../hack/registry.ts';
import { Home } from './_home.ts';
import { pageArchives, pageImage, typePage } from './_standalone-page.ts';
import { shellIn } from './_typed-page.ts';
import { suiteEngines } from './engines/_outside.ts';
import { FakeController } from './link/_fake-controller.ts';

/**
 * docs/standalone.md as typed, on docker, and by night on the others. On a machine of its own, from the package and without a network, it is
 * typed by e2e/machines/standalone-page.test.ts.
 */

let folder: string;
let registry: Registry;
const controller = new FakeController();

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-standalone-'));
  for (const [name, archive] of Object.entries(await pageArchives())) writeFileSync(join(folder, name), archive);
  await using open = await startRegistry({ dir: join(folder, 'open') });
  await pushImage(open.url, 'shop/tool', '1', await pageImage('tool'));
  registry = await startRegistry({ dir: join(folder, 'registry'), images: open.images, auth: 'basic' });
  await controller.listen();
}, 60_000);
afterAll(async () => {
  await controller.close();
  await registry[Symbol.asyncDispose]();
  rmSync(folder, { recursive: true, force: true });
});

for (const { kind, url } of suiteEngines())
  describe.runIf(kind !== 'podman' || process.env.SKERRY_NIGHTLY)(`docs/standalone.md with ${kind}`, () => {
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
        const inShell = shellIn({ folder, env, patience: 60_000 });
        await typePage({
          here: [
            ['8081', String(port)],
            ['/var/lib/skerry-agent', home.disk],
            ['registry.example:5000', registry.host],
            ['skerry://controller.example:51121/6f1c2a', controller.joinString],
            ['gw-1 of https://controller.example:51121', `fake of ${controller.url}`],
          ],
          type: async (command) => {
            if (command.startsWith('apt-get ')) return undefined;
            if (command !== 'systemctl restart skerry-agent') return inShell(command);
            await home.end();
            await home.up();
            return undefined;
          },
        });
      } finally {
        await home.remove();
      }
    });
  });
