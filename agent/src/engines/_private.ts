import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startContainerd } from '../../../hack/containerd.ts';
import { type EngineKind, type EngineOptions, findEngine, removeEngineData } from '../../../hack/engine.ts';
import type { TestEngine } from './_outside.ts';

/** An engine that a test has for itself: it may end. */
export interface OwnTestEngine extends TestEngine, AsyncDisposable {
  /** Ends it as a crash does. */
  kill(): Promise<void>;
  /** Ends it as the machine's service manager does. */
  halt(): Promise<void>;
  start(): Promise<void>;
}

/** `options`: of a docker or podman. */
export function startOwnEngine(kind: TestEngine['kind'], options: Partial<EngineOptions> = {}): Promise<OwnTestEngine> {
  return kind === 'embedded' ? startOwnContainerd() : startOwnDockerApi(kind, options);
}

/** A docker or podman; options beside the usual ones. */
export async function startOwnDockerApi(
  kind: EngineKind,
  options: Partial<EngineOptions> = {},
): Promise<OwnTestEngine> {
  const folder = mkdtempSync(join(tmpdir(), `skerry-${kind}-`));
  const dir = join(folder, 'engine');
  // Docker would repeat a broken download for most of a minute before it reports it.
  const args = kind === 'docker' ? ['--max-download-attempts', '1'] : [];
  const engine = await findEngine({ dir, kind, alwaysPrivate: true, args, ...options });
  return {
    ...engine,
    halt: engine.stop,
    async [Symbol.asyncDispose]() {
      await engine.stop();
      removeEngineData(dir);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The containers of the agent's own engine run on when it ends. */
async function startOwnContainerd(): Promise<OwnTestEngine> {
  const dir = mkdtempSync(join(tmpdir(), 'skerry-embedded-'));
  const { url, kill, halt, start, stop } = await startContainerd({ dir });
  return {
    ...{ kind: 'embedded', url, kill, halt },
    start: () => start(),
    async [Symbol.asyncDispose]() {
      await stop();
      rmSync(dir, { recursive: true, force: true });
    },
  };
}
