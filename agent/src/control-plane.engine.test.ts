import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { controlPlaneImage } from '../../hack/control-plane-image.ts';
import { saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { typeHubPage } from './_control-plane-page.ts';
import { Home } from './_home.ts';
import { shellIn } from './_typed-page.ts';
import { suiteEngines } from './engines/_outside.ts';

/** docs/control-plane-on-a-node.md as a reader types it, on docker, and by night on the others, with two agents on one engine. */

let folder: string;

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'skerry-hub-'));
  const image = await controlPlaneImage(join(folder, 'bundles'));
  const archive = saveImage(image, 'skerry/control-plane:0.1.0-amd64');
  writeFileSync(join(folder, 'skerry-control-plane-0.1.0.oci.tar'), archive);
}, 300_000);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function shellOf(home: Home): Record<string, string> {
  const program = join(home.folder, 'skerry-agent');
  const script = `#!/bin/sh\nexec '${process.execPath}' '${join(ROOT, 'agent/src/main.ts')}' "$@"\n`;
  writeFileSync(program, script, { mode: 0o755 });
  return { PATH: `${home.folder}:${process.env.PATH}`, SKERRY_AGENT_CONFIG: home.config };
}

for (const { kind, url } of suiteEngines())
  describe.runIf(kind !== 'podman' || process.env.SKERRY_NIGHTLY)(
    `docs/control-plane-on-a-node.md with ${kind}`,
    () => {
      test('holds as typed', { timeout: 900_000 }, async () => {
        const [hub, other] = [new Home({ engineUrl: url }), new Home({ engineUrl: url })];
        const port = String(await freePort());
        try {
          for (const home of [hub, other]) await home.up();
          const shellOn = (home: Home) => shellIn({ folder, env: shellOf(home), patience: 240_000 });
          await typeHubPage({
            hub: shellOn(hub),
            other: shellOn(other),
            here: [
              ['hub.example', '127.0.0.1'],
              ['51121', port],
              ['{ image:', `{ port: ${port}, image:`],
            ],
          });
        } finally {
          for (const home of [other, hub]) await home.remove();
        }
      });
    },
  );
