import { afterAll, expect, onTestFinished } from 'vitest';

/** Runs when the present test ends or, at the top of a file, after its tests. Vitest drops it without a word in a `beforeAll`. */
export function atEnd(end: () => unknown): void {
  if (expect.getState().currentTestName === undefined) afterAll(async () => void (await end()));
  else onTestFinished(async () => void (await end()));
}
