import promises from 'node:fs/promises';

/**
 * Makes this process end as by kill -9 at one of the moments before and after each of these changes of its disk, counted from
 * one. `counted` are the moments so far; `moment` is for changes that are made by other functions. The caller passes the
 * changes on with `syncBuiltinESMExports`.
 */
export function endAtMoment(at: number, names: readonly string[]) {
  const moments = { counted: 0, moment };
  function moment(): void {
    if (++moments.counted !== at) return;
    process.kill(process.pid, 'SIGKILL');
    // Nothing of this thread may run on while the signal is on its way.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
  }
  const calls = promises as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
  for (const name of names) {
    const call = calls[name];
    if (!call) throw new Error(`there is no ${name}`);
    calls[name] = async (...args) => {
      moment();
      try {
        return await call.apply(promises, args);
      } finally {
        moment();
      }
    };
  }
  return moments;
}
