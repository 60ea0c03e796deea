import { Session } from 'node:inspector/promises';

/** How often each function of ours was called meanwhile, as V8 counts it: a measure of work that no machine is too slow for. */
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
