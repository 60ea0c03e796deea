import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { atEnd } from '../testing/at-end.ts';
import { temporaryFolder } from '../testing/temporary-folder.ts';
import { until } from './_stack.ts';

/** A folder that has the local stack of `make up` in `.skerry`, without the sample, until the test ends. */
export async function localStack(env: Readonly<Record<string, string>>): Promise<string> {
  const home = join(temporaryFolder(), 'home');
  mkdirSync(join(home, 'stack'), { recursive: true });
  symlinkSync(join(home, 'stack'), join(home, '.skerry'));
  const places = { SAMPLE: '0', SKERRY_STACK: join(home, 'stack'), SKERRY_PORT: String(await freePort()) };
  const process_ = spawn(process.execPath, [join(ROOT, 'hack/up.ts')], {
    env: { ...process.env, ...places, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
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
