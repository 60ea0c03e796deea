import type { LoginPolicy } from './policy.ts';

/** The browser that last logged in as a user. `id`: a hash; `failed`: its wrong attempts while the account was locked; `at`: Unix ms. */
export interface Device {
  readonly id: string;
  readonly failed: number;
  readonly at: number;
}

/**
 * Takes one of the attempts that a known browser has while its account is locked for others. Undefined: the browser is another one,
 * or has none left until the lock is over.
 */
export function reservedByDevice(
  devices: readonly Device[],
  id: string | undefined,
  { maxFailedAttempts }: Pick<LoginPolicy, 'maxFailedAttempts'>,
): readonly Device[] | undefined {
  const known = devices.find((device) => device.id === id);
  if (!known || known.failed >= maxFailedAttempts) return undefined;
  return devices.map((device) => (device === known ? { ...device, failed: device.failed + 1 } : device));
}

/** The devices once the attempt of a browser was right: it gets the attempt back, or all of them. */
export const rightByDevice = (devices: readonly Device[], id: string | undefined, resets: boolean): readonly Device[] =>
  devices.map((device) =>
    device.id === id ? { ...device, failed: resets ? 0 : Math.max(0, device.failed - 1) } : device,
  );

/** The devices after a whole login: the browser that logged in, and no other. */
export const loggedInBy = (id: string, now: number): readonly Device[] => [{ id, failed: 0, at: now }];
