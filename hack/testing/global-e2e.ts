import type { TestProject } from 'vitest/node';
import api from './global-api.ts';
import engine from './global-engine.ts';

/** A control plane, a container engine and a registry for the tests in e2e/. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  await using started = new AsyncDisposableStack();
  started.defer(await engine(project));
  started.defer(await api(project));
  const owned = started.move();
  return () => owned.disposeAsync();
}
