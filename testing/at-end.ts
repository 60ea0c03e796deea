import { afterAll, expect, onTestFinished } from 'vitest';

/** Runs when the present test ends or, when none runs, after the tests of the file. */
export function atEnd(end: () => unknown): void {
  if (expect.getState().currentTestName === undefined) afterAll(async () => void (await end()));
  else onTestFinished(async () => void (await end()));
}
