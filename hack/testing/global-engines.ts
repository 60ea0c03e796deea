import type { TestProject } from 'vitest/node';
import type { EngineKind } from '../engine.ts';
import { provideEngines } from './global-engine.ts';

/**
 * Every kind of container engine and an empty registry for all `*.engine.test.ts`. SKERRY_ENGINE selects one kind, for a
 * machine that cannot run the others.
 */
export default function setup(project: TestProject): Promise<() => Promise<void>> {
  const asked = process.env.SKERRY_ENGINE as EngineKind | undefined;
  return provideEngines(project, asked ? [asked] : ['docker', 'podman']);
}
