import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { routerCommand, routerPairsHere } from '../hack/router.ts';
import { AGENT_BRIDGE_HOST } from '../src/api/names.ts';
import { ROUTER_FILES, ROUTER_SETS, type RouterPair } from '../src/wire/router.ts';
import type { TestAgent } from './test-agent.ts';

/** Runs the router of a test agent's node as a process, with the files that the controller has for it. */
export async function startRouterOf(agent: TestAgent, dir: string): Promise<Daemon> {
  const sets = await agent.files.content();
  for (const set of [ROUTER_SETS.site, ROUTER_SETS.local])
    for (const [path, content] of sets.get(set) ?? []) {
      const file = join(dir, set, path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, content, { mode: 0o600 });
    }
  const here = routerPairsHere(routerPairsOf(sets), { certificates: dir, probes: 0 }).map(
    ([kind, attributes]): RouterPair => [
      kind,
      // There is no network of containers with that name.
      attributes.host === AGENT_BRIDGE_HOST ? { ...attributes, host: '127.0.0.1' } : attributes,
    ],
  );
  const config = join(dir, ROUTER_FILES.config);
  writeFileSync(config, JSON.stringify(here));
  return startDaemon({ name: `router-${agent.name}`, dir, ...routerCommand(config) });
}

/** The text of the configuration among the files of a node. */
export const routerConfigOf = (sets: Awaited<ReturnType<TestAgent['files']['content']>>): string =>
  String(sets.get(ROUTER_SETS.config)?.get(ROUTER_FILES.config) ?? '[]');

const routerPairsOf = (sets: Parameters<typeof routerConfigOf>[0]) => JSON.parse(routerConfigOf(sets)) as RouterPair[];
