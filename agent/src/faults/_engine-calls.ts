import { DockerEngine } from '../engines/docker/engine.ts';
import { EmbeddedEngine } from '../engines/embedded/engine.ts';

/** Carries a call of an engine out, with something before and after it. */
type Around = (name: string, call: () => Promise<unknown>) => Promise<unknown>;

/** Puts something around these calls of every engine of this process. Throws for a name that an engine does not have. */
export function aroundEngineCalls(names: readonly string[], around: Around): void {
  for (const { prototype } of [DockerEngine, EmbeddedEngine]) {
    const engine = prototype as unknown as Record<string, (...args: unknown[]) => Promise<unknown>>;
    for (const name of names) {
      const call = engine[name];
      if (!call) throw new Error(`the engine has no ${name}`);
      engine[name] = async function (...args) {
        return around(name, () => call.apply(this, args));
      };
    }
  }
}
