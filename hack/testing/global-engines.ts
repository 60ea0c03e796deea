import type { TestProject } from 'vitest/node';
import type { EngineKind } from '../engine.ts';
import { provideEngines } from './global-engine.ts';

/**
 * Every kind of container engine and an empty registry for all `*.engine.test.ts`. SKERRY_ENGINE leaves all but one out,
 * for a machine that cannot have the others.
 */
export default function setup(project: TestProject): Promise<() => Promise<void>> {
  const asked = process.env.SKERRY_ENGINE as EngineKind | undefined;
  return provideEngines(project, asked ? [asked] : ['docker', 'podman']);
}
