import { expect, test } from 'vitest';
import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';
import { busFigures } from './metrics.ts';

const hub = (status: Pick<NonNullable<BusHub['status']>, 'members' | 'current'> | undefined) => ({ status }) as BusHub;
const account = (status: 'True' | 'False' | undefined) =>
  ({ status: status && { conditions: [{ type: 'Ready', status }] } }) as BusAccount;

test.each([
  { what: 'no hub', hubs: [], current: 0, behind: 0 },
  { what: 'a hub that has not started', hubs: [hub(undefined)], current: 0, behind: 0 },
  { what: 'a hub whose third server lacks tokens', hubs: [hub({ members: 3, current: 2 })], current: 2, behind: 1 },
  { what: 'a hub with fewer servers than before', hubs: [hub({ members: 1, current: 3 })], current: 3, behind: 0 },
])('figures of $what count $current current servers and $behind behind', ({ hubs, current, behind }) => {
  expect([...busFigures(hubs, []).busServers]).toEqual([
    ['current', current],
    ['behind', behind],
  ]);
});

test('figures count accounts by their condition Ready', () => {
  const { busAccounts } = busFigures([], [account('True'), account('True'), account('False'), account(undefined)]);
  expect([...busAccounts]).toEqual([
    ['True', 2],
    ['False', 1],
    ['Unknown', 1],
  ]);
});

test('figures count accounts that trust a former key', () => {
  const trusting = { status: { conditions: [{ type: 'CredentialsOutdated', status: 'True' }] } } as BusAccount;
  expect(busFigures([], [account('True'), trusting]).busFormerKeys).toBe(1);
});
