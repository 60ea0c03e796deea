import { Session } from 'node:inspector/promises';

/** Counts the calls of each function of ours with V8: a measure of work that no slow machine distorts. */
export interface CallCounter extends Disposable {
  /** The calls during an action, by function. */
  during(work: () => unknown): Promise<Map<string, number>>;
}

/** One counter for many actions: to start one, V8 walks the whole heap. */
export async function startCallCounter(): Promise<CallCounter> {
  const inspector = new Session();
  inspector.connect();
  await inspector.post('Profiler.enable');
  await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
  // Counts begin again with each take.
  const take = async () => (await inspector.post('Profiler.takePreciseCoverage')).result;
  return {
    async during(work) {
      await take();
      await work();
      const calls = new Map<string, number>();
      for (const { url, functions } of await take()) {
        const [, file] = /\/(src\/.*)$/.exec(url) ?? [];
        if (!file || file.includes('/_') || file.includes('.test.')) continue;
        for (const { functionName, ranges } of functions) {
          const [range] = ranges;
          if (range?.count) calls.set(`${file} ${functionName || range.startOffset}`, range.count);
        }
      }
      return calls;
    },
    [Symbol.dispose]: () => inspector.disconnect(),
  };
}
