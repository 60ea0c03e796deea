import type { BusAccount } from '../../../api/v3/bus-account.ts';

/** Accounts by the status of their condition Ready. */
export function accountFigures(accounts: readonly BusAccount[]): ReadonlyMap<string, number> {
  const figures = new Map<string, number>();
  for (const { status } of accounts) {
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status ?? 'Unknown';
    figures.set(ready, (figures.get(ready) ?? 0) + 1);
  }
  return figures;
}
