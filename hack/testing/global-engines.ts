import type { TestProject } from 'vitest/node';
import { askedKind, provideEngines } from './global-engine.ts';

/**
 * Every kind of container engine and an empty registry for all `*.engine.test.ts`. SKERRY_ENGINE selects one kind, for a
 * machine that cannot run the others; SKERRY_CONTAINERD=2 takes containerd 2 for the agent's own engine.
 */
export default function setup(project: TestProject): Promise<() => Promise<void>> {
  const asked = askedKind();
  return provideEngines(project, asked ? [asked] : ['docker', 'podman', 'embedded']);
}
