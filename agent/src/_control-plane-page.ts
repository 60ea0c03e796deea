import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { ROOT } from '../../hack/paths.ts';
import { type Typing, typeAsWritten, typedOf } from './_typed-page.ts';
import { until } from './engines/_contract.ts';

/** docs/control-plane-on-a-node.md as a reader types it on two machines. */
const PAGE = readFileSync(join(ROOT, 'docs/control-plane-on-a-node.md'), 'utf8');

/** The two machines of the page, which share the files that it writes. */
export interface HubAndOther {
  /** Types a command on the machine with the control plane. */
  hub: Typing['type'];
  other: Typing['type'];
  /** words of the page -> words here */
  here?: readonly (readonly [string, string])[];
  /** Called while both machines are nodes, before the control plane is removed. */
  beforeRemoval?(): Promise<unknown>;
}

/** Begins the lines that are typed on the other machine; a shell does nothing with it. */
const OTHER = ': gw-2; ';

/** What a second look may show, when the first came too early: the control plane starts again. */
const isLook = (command: string) =>
  /^(curl|skerry-agent (controlplane get|ms exec controller -- skerry get))/.test(command);

/** Whether the control plane ends by a command, and is started again. */
const isEnd = (command: string) => /control-plane restore|controlplane restart/.test(command);

const isBeforeRemoval = (command: string) => /^skerry-agent deprovision/.test(command);

/** Which run of the control plane is healthy now; empty: none. */
export async function runOfControlPlane(type: Typing['type']): Promise<string> {
  const { code, lines } = (await type('skerry-agent controlplane get -o json')) ?? { code: 1, lines: [] };
  if (code !== 0) return '';
  const { health, containerId, restartCount } = JSON.parse(lines.join('\n'));
  return health === 'healthy' ? `${containerId} ${restartCount}` : '';
}

/** Types the page. Fails with the first command that prints something else. */
export async function typeHubPage({ hub, other, here = [], beforeRemoval }: HubAndOther): Promise<void> {
  const page = here.reduce((text, [there, own]) => text.replaceAll(there, own), PAGE);
  const all = typedOf(page.replaceAll('    gw-2$ ', `    $ ${OTHER}`));
  expect(all.length).toBeGreaterThan(20);
  for (const typed of all) {
    const { command } = typed;
    if (isBeforeRemoval(command)) await beforeRemoval?.();
    const before = isEnd(command) ? await runOfControlPlane(hub) : '';
    const type = command.startsWith(OTHER) ? other : hub;
    await typeAsWritten(typed, { type, isLook, lookPatience: 120_000 });
    // The page says that it takes half a minute.
    if (before !== '')
      await until(
        'the control plane to run again',
        async () => {
          const now = await runOfControlPlane(hub);
          return now !== '' && now !== before;
        },
        240_000,
      );
  }
}
