import { afterAll, onTestFinished, TestRunner } from 'vitest';

/** Runs when the present test ends or, at the top of a file, after its tests. Vitest drops it without a word in a `beforeAll`. */
export function atEnd(end: () => unknown): void {
  if (TestRunner.getCurrentTest() === undefined) afterAll(async () => void (await end()));
  else onTestFinished(async () => void (await end()));
}
