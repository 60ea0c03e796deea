import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { atEnd } from '../testing/at-end.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { until } from './_stack.ts';
import { shellOfReader, typeIdentityPage } from './_typed.ts';

/** `PROVIDER=dex make up` as typed: the people of Dex at REST and kubectl. In the night alone: a whole stack is started for it. */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;

/** A folder that has the local stack with Dex in `.skerry`, until the file ends. */
async function up(): Promise<string> {
  const home = join(temporaryFolder(), 'home');
  mkdirSync(join(home, 'stack'), { recursive: true });
  symlinkSync(join(home, 'stack'), join(home, '.skerry'));
  const port = String(await freePort());
  const env = { ...process.env, PROVIDER: 'dex', SAMPLE: '0', SKERRY_STACK: join(home, 'stack'), SKERRY_PORT: port };
  const process_ = spawn(process.execPath, [join(ROOT, 'hack/up.ts')], { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let printed = '';
  for (const stream of [process_.stdout, process_.stderr])
    stream.on('data', (text) => {
      printed += text;
    });
  atEnd(async () => {
    if (process_.exitCode !== null) return;
    process_.kill('SIGTERM');
    await once(process_, 'exit');
  });
  await until(
    'the local stack to run',
    async () => {
      if (process_.exitCode !== null) throw new Error(`make up ended: ${printed.slice(-2_000)}`);
      return printed.includes('What runs:');
    },
    { timeoutMs: 300_000 },
  );
  return home;
}

test.skipIf(!isNightly)(
  'docs/identity.md holds as typed with Dex',
  async () => {
    const home = await up();
    const type = shellOfReader({ cwd: home, env: { ...process.env, HOME: home } });
    expect(await typeIdentityPage(type, ['With another provider'])).toEqual([]);
  },
  600_000,
);
