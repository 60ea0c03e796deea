import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { controlPlaneImage } from '../../hack/control-plane-image.ts';
import { saveImage } from '../../hack/image.ts';
import { ROOT } from '../../hack/paths.ts';
import { freePort } from '../../hack/ports.ts';
import { Home } from './_home.ts';
import { shellIn, typeAsWritten, typedOf } from './_typed-page.ts';
import { until } from './engines/_contract.ts';
import { suiteEngines } from './engines/_outside.ts';

/** docs/control-plane-on-a-node.md as a reader types it, on docker, and by night on the others, with two agents on one engine. */
const PAGE = readFileSync(join(ROOT, 'docs/control-plane-on-a-node.md'), 'utf8');

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

/** What a second look may show, when the first came too early: the control plane starts again. */
const isLook = (command: string) =>
  /^(curl|skerry-agent (controlplane get|ms exec controller -- skerry get))/.test(command);

/** Whether the control plane ends by a command, and is started again. */
const isEnd = (command: string) => /control-plane restore|controlplane restart/.test(command);

/** Which run of the control plane is healthy now; empty: none. */
async function runOf(type: ReturnType<typeof shellIn>): Promise<string> {
  const { lines } = await type('skerry-agent controlplane get -o json');
  const { health, containerId, restartCount } = JSON.parse(lines.join('\n'));
  return health === 'healthy' ? `${containerId} ${restartCount}` : '';
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
          const page = PAGE.replaceAll('hub.example', '127.0.0.1')
            .replaceAll('51121', port)
            .replaceAll('{ image:', `{ port: ${port}, image:`);
          const [env, otherEnv] = [shellOf(hub), shellOf(other)];
          const all = typedOf(page.replaceAll('    gw-2$ ', '    $ : gw-2; '));
          expect(all.length).toBeGreaterThan(20);
          for (const typed of all) {
            const isOther = typed.command.startsWith(': gw-2; ');
            const type = shellIn({ folder, env: isOther ? otherEnv : env, patience: 240_000 });
            const before = isEnd(typed.command) ? await runOf(type) : '';
            await typeAsWritten(typed, { type, isLook, lookPatience: 120_000 });
            // The page says that it takes half a minute.
            if (before !== '')
              await until(
                'the control plane to run again',
                async () => {
                  const now = await runOf(type);
                  return now !== '' && now !== before;
                },
                240_000,
              );
          }
        } finally {
          for (const home of [other, hub]) await home.remove();
        }
      });
    },
  );
