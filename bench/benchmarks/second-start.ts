import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { tryLock } from '../../hack/lock.ts';
import { ROOT } from '../../hack/paths.ts';
import { STACK_FOLDER } from '../../hack/stack/files.ts';
import { type Benchmark, type Context, Skip } from '../benchmark.ts';

/** How long `make up` takes when nothing has to be built or downloaded any more. */
export const secondStart: Benchmark = {
  name: 'second-start',
  about: '`make up ONCE=1` with everything in the cache',
  rows: {
    seconds: { what: '`make up ONCE=1`, second start, sample proven and everything stopped', unit: 's' },
  },
  async run(context) {
    const lock = tryLock(join(STACK_FOLDER, 'lock'));
    if (!lock) throw new Skip('the local stack runs');
    lock.release();
    // The first start downloads or builds missing programs, and provisions the node.
    await up(context);
    return { figures: { seconds: await up(context) } };
  },
};

async function up({ log }: Context): Promise<number> {
  const env = { ...process.env, NODE_ENV: undefined, NODE_OPTIONS: undefined };
  const began = performance.now();
  const child = spawn('make', ['-s', 'up', 'ONCE=1'], { cwd: ROOT, env, stdio: ['ignore', 'ignore', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (piece) => {
    errors += piece;
  });
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  const seconds = (performance.now() - began) / 1_000;
  log(`  make up ONCE=1 ended with ${code} after ${seconds.toFixed(1)} s`);
  if (code !== 0) throw new Skip(`the local stack cannot be started here: ${errors.trim().split('\n')[0]}`);
  return seconds;
}
