import { fork } from 'node:child_process';
import { join } from 'node:path';
import type { Calls } from './calls.ts';

/** Many agents in a process of their own. */
export interface Simulation extends Disposable {
  readonly pid: number;
  call<K extends keyof Calls>(name: K, args: Parameters<Calls[K]>[0]): ReturnType<Calls[K]>;
}

export function startSimulation(): Simulation {
  const child = fork(join(import.meta.dirname, 'host.ts'));
  let last = 0;
  const open = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  child.on('message', ({ id, value, error }: { id: number; value: never; error?: string }) => {
    if (error === undefined) open.get(id)?.resolve(value);
    else open.get(id)?.reject(new Error(error));
    open.delete(id);
  });
  child.on('exit', (code, signal) => {
    for (const { reject } of open.values())
      reject(new Error(`the process of the simulated nodes ended: ${signal ?? code}`));
  });
  return {
    pid: child.pid as number,
    call(name, args) {
      const id = ++last;
      return new Promise((resolve, reject) => {
        open.set(id, { resolve, reject });
        child.send({ id, name, args });
      }) as ReturnType<Calls[typeof name]>;
    },
    [Symbol.dispose]: () => {
      if (child.connected) child.disconnect();
    },
  };
}
