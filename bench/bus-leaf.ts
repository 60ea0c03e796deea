import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { type Daemon, startDaemon } from '../hack/process.ts';
import { buildTool } from '../hack/tool.ts';
import { waitFor } from '../hack/wait.ts';
import { BUS_FILES, BUS_PLACES, BUS_SETS } from '../src/wire/bus.ts';
import type { TestAgent } from './test-agent.ts';

/** Where the container of a bus server has each set. */
const PLACES: Readonly<Record<string, string>> = {
  [BUS_SETS.config]: BUS_PLACES.config,
  [BUS_SETS.certificate]: `${BUS_PLACES.certificates}/${BUS_SETS.certificate}`,
  [BUS_SETS.mqttCertificate]: `${BUS_PLACES.certificates}/${BUS_SETS.mqttCertificate}`,
};

/** Runs the bus server of a test agent's node as a process, with the files that the controller has for it. */
export async function startBusServerOf(agent: TestAgent, dir: string): Promise<Daemon> {
  const here = (place: string) => join(dir, place);
  const moved = (text: string) =>
    text
      .replaceAll(`"${BUS_PLACES.root}/`, `"${here(BUS_PLACES.root)}/`)
      .replaceAll(`"${BUS_PLACES.data}/`, `"${here(BUS_PLACES.data)}/`);
  for (const [set, files] of await agent.files.content())
    for (const [path, content] of files) {
      const place = PLACES[set];
      if (place === undefined) continue;
      const file = join(here(place), path);
      mkdirSync(dirname(file), { recursive: true });
      writeFileSync(file, path === BUS_FILES.config ? moved(String(content)) : content, { mode: 0o600 });
    }
  mkdirSync(join(here(BUS_PLACES.data), 'tokens'), { recursive: true });
  const command = await buildTool('nats', 'github.com/nats-io/nats-server/v2');
  const args = ['-c', join(here(BUS_PLACES.config), BUS_FILES.config)];
  return startDaemon({ name: `bus-${agent.name}`, dir, command, args });
}

/** Waits until the monitoring of a bus server counts as many leaf links. */
export const untilLinked = (httpPort: number, links: number): Promise<true> =>
  waitFor(
    async () => {
      const page = await fetch(`http://127.0.0.1:${httpPort}/leafz`);
      return ((await page.json()) as { leafnodes: number }).leafnodes >= links;
    },
    { what: `${links} links of a bus server`, timeoutMs: 60_000, intervalMs: 100 },
  );
