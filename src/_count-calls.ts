import { Session } from 'node:inspector/promises';

/** Counts the calls of each function of ours during an action with V8: a measure of work that no slow machine distorts. */
export async function countCalls(work: () => unknown): Promise<Map<string, number>> {
  const inspector = new Session();
  inspector.connect();
  try {
    await inspector.post('Profiler.enable');
    await inspector.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false });
    await work();
    const { result } = await inspector.post('Profiler.takePreciseCoverage');
    await inspector.post('Profiler.stopPreciseCoverage');
    const calls = new Map<string, number>();
    for (const { url, functions } of result) {
      const [, file] = /\/(src\/.*)$/.exec(url) ?? [];
      if (!file || file.includes('/_') || file.includes('.test.')) continue;
      for (const { functionName, ranges } of functions) {
        const [range] = ranges;
        if (range?.count) calls.set(`${file} ${functionName || range.startOffset}`, range.count);
      }
    }
    return calls;
  } finally {
    inspector.disconnect();
  }
}
