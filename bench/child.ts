import { fork } from 'node:child_process';

/** Calls to a process of its own, by name; arguments and results pass its IPC channel as JSON. */
export type ChildCalls<C> = { [K in keyof C]: (args: never) => Promise<unknown> };

export interface Child<C extends ChildCalls<C>> extends Disposable {
  readonly pid: number;
  call<K extends keyof C>(name: K, args: Parameters<C[K]>[0]): ReturnType<C[K]>;
}

/** Starts a program that serves calls, as a process of its own, so that its usage is separate from the measured program. */
export function startChild<C extends ChildCalls<C>>(file: string, what: string): Child<C> {
  const child = fork(file);
  let last = 0;
  const open = new Map<number, { resolve: (value: never) => void; reject: (error: Error) => void }>();
  child.on('message', ({ id, value, error }: { id: number; value: never; error?: string }) => {
    if (error === undefined) open.get(id)?.resolve(value);
    else open.get(id)?.reject(new Error(error));
    open.delete(id);
  });
  child.on('exit', (code, signal) => {
    for (const { reject } of open.values()) reject(new Error(`the process of ${what} ended: ${signal ?? code}`));
  });
  return {
    pid: child.pid as number,
    call(name, args) {
      const id = ++last;
      return new Promise((resolve, reject) => {
        open.set(id, { resolve, reject });
        child.send({ id, name, args });
      }) as ReturnType<C[typeof name]>;
    },
    [Symbol.dispose]: () => {
      if (child.connected) child.disconnect();
    },
  };
}

/** Serves the calls of the process that started this one, and ends with it. */
export function serveCalls<C extends ChildCalls<C>>(calls: C): void {
  process.on('message', ({ id, name, args }: { id: number; name: keyof C; args: never }) => {
    calls[name](args).then(
      (value) => process.send?.({ id, value }),
      (error) => process.send?.({ id, error: (error as Error).message }),
    );
  });
  process.on('disconnect', () => process.exit());
}
