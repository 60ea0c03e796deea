import fs from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';

/** The calls that change a disk or make it durable. */
const CALLS = [
  'mkdirSync',
  'openSync',
  'writeFileSync',
  'fsyncSync',
  'chmodSync',
  'symlinkSync',
  'renameSync',
  'rmSync',
] as const;

/**
 * Runs `act` as a process that ends at its n-th call which changes the disk: that call and all later ones have no effect,
 * so that nothing can be tidied up either. A write that is the n-th leaves half of its bytes. Returns whether `act` came
 * to its end before.
 */
export function untilCall(n: number, act: () => void): boolean {
  let seen = 0;
  const real = Object.fromEntries(CALLS.map((name) => [name, fs[name]])) as Record<
    string,
    (...args: unknown[]) => unknown
  >;
  const table = fs as unknown as Record<string, unknown>;
  for (const name of CALLS)
    table[name] = (...args: unknown[]) => {
      seen++;
      if (seen === n && name === 'writeFileSync')
        real.writeFileSync?.(
          args[0],
          Buffer.from(args[1] as Uint8Array).subarray(0, (args[1] as Uint8Array).length / 2),
        );
      if (seen >= n) throw new Error('the process has ended');
      return real[name]?.(...args);
    };
  syncBuiltinESMExports();
  try {
    act();
  } catch {
    // What a process that has ended would throw means nothing.
  } finally {
    Object.assign(table, real);
    syncBuiltinESMExports();
  }
  return seen < n;
}
