import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ROOT } from '../../hack/paths.ts';
import { isRealRouter, makeRouterTrust, startRouter } from '../../testing/router.ts';
import { exchange } from '../../testing/router-answers/exchange.ts';

const FILE = join(ROOT, 'testing/router-answers/messages.json');

test('a router passes messages between its clients as the recorded one', { timeout: 60_000 }, async () => {
  const trust = await makeRouterTrust();
  const { ports } = await startRouter(trust, { id: 'recorded', place: 'hub' });
  const recorded = JSON.parse(readFileSync(FILE, 'utf8'));
  const seen = await exchange(ports.messaging, trust.agent, recorded);
  if (isRealRouter) await expect(`${JSON.stringify(seen, null, 1)}\n`).toMatchFileSnapshot(FILE);
  else expect(seen).toEqual(recorded);
});
