import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { installCrds, startControlPlane } from '../../hack/control-plane.ts';
import { startClock } from '../../hack/progress.ts';
import { layFoundations } from './foundations.ts';
import { generate, PROFILES, type Story } from './generate.ts';
import { report, timeline } from './story.ts';
import { tellAll } from './tell-all.ts';

const HELP = `Tells stories of random users and faults, and checks what was promised.

    node e2e/history/main.ts --seed 17                   one story, with everything that happened
    node e2e/history/main.ts --from 0 --count 200
    node e2e/history/main.ts --from today --count 200    other ones every day
    node e2e/history/main.ts --profile 'real engine'     only those seeds; SKERRY_ENGINE selects the engine
    node e2e/history/main.ts --lanes 2                   so many side by side

Exits with 1 when a promise was broken. SKERRY_KEEP=1 keeps logs and states.
`;

function readOptions() {
  try {
    const { values } = parseArgs({
      options: {
        seed: { type: 'string' },
        from: { type: 'string', default: '0' },
        count: { type: 'string', default: '20' },
        profile: { type: 'string' },
        lanes: { type: 'string' },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
    const { profile } = values;
    if (profile !== undefined && !PROFILES.some((each) => each === profile))
      throw new Error(`--profile ${profile}: there are ${PROFILES.join(', ')}`);
    if (!values.help) return values;
    process.stdout.write(HELP);
    return process.exit(0);
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n\n${HELP}`);
    return process.exit(2);
  }
}

const values = readOptions();
const one = values.seed !== undefined;
/** Number of stories of a nightly run. */
const NIGHTLY = 200;
const today = Math.floor(Date.now() / 86_400_000) * NIGHTLY;
const from = values.from === 'today' && !one ? today : Number(values.seed ?? values.from);
const count = one ? 1 : Number(values.count);

const log = startClock((text) => process.stderr.write(text));
await using started = new AsyncDisposableStack();
const dir = await mkdtemp(join(tmpdir(), 'skerry-history-'));
if (process.env.SKERRY_KEEP) log(`Logs and states stay in ${dir}`);
else started.defer(() => rm(dir, { recursive: true, force: true }));
const cluster = started.use(await startControlPlane({ dir: join(dir, 'control-plane'), log }));
await installCrds(cluster.kubeconfig);
const stories: Story[] = [];
for (let seed = from; stories.length < count; seed++) {
  const story = generate(seed);
  if (one || values.profile === undefined || story.profile === values.profile) stories.push(story);
}
const foundations = await layFoundations(
  { dir, kubeconfig: cluster.kubeconfig, real: stories.some(({ engine }) => engine === 'real'), log },
  started,
);
let broken = 0;
await tellAll(stories, foundations, {
  lanes: values.lanes === undefined ? undefined : Number(values.lanes),
  onTold({ story, history, violations, ms }) {
    if (violations.length > 0) broken++;
    log(`${report(story, history, violations)} (${(ms / 1000).toFixed(1)} s)`);
    if (one && violations.length === 0) process.stdout.write(`${timeline(history)}\n`);
  },
  onFailed(story, error) {
    broken++;
    log(`seed ${story.seed} (${story.profile}) could not be told: ${error.stack}`);
  },
});
log(`${count - broken} of ${count} seeds held`);
process.exitCode = broken > 0 ? 1 : 0;
