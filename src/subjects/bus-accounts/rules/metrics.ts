import type { BusAccount } from '../../../api/v3/bus-account.ts';
import type { BusHub } from '../../../api/v3/bus-hub.ts';

/** Servers of the hub by the tokens that they have, accounts by their condition Ready, and accounts that trust a former key. */
export function busFigures(hubs: readonly BusHub[], accounts: readonly BusAccount[]) {
  const busServers = new Map([
    ['current', 0],
    ['behind', 0],
  ]);
  for (const { status } of hubs) {
    const { members = 0, current = 0 } = status ?? {};
    busServers.set('current', (busServers.get('current') ?? 0) + current);
    busServers.set('behind', (busServers.get('behind') ?? 0) + Math.max(0, members - current));
  }
  const busAccounts = new Map<string, number>();
  let busFormerKeys = 0;
  for (const { status } of accounts) {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? 'Unknown';
    busAccounts.set(ready, (busAccounts.get(ready) ?? 0) + 1);
    if (status?.conditions?.some(({ type }) => type === 'CredentialsOutdated')) busFormerKeys++;
  }
  return { busServers, busAccounts, busFormerKeys };
}
