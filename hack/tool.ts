import { createHash } from 'node:crypto';
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { goBuild } from './go.ts';
import { lock } from './lock.ts';
import { cacheFolder } from './paths.ts';
import type { Log } from './progress.ts';

interface ToolOptions {
  log?: Log | undefined;
  /** build tags */
  tags?: readonly string[];
  /** folder under hack/tools; the name of the program when absent */
  pins?: string;
}

/**
 * Path of a program that only tests need, built from the Go module that `hack/tools/<name>` pins and stored in the user's
 * cache folder. It is not part of the local stack, whose start does not wait for it.
 */
export async function buildTool(
  name: string,
  goPackage: string,
  { log = () => {}, tags = [], pins = name }: ToolOptions = {},
): Promise<string> {
  const module = join(import.meta.dirname, 'tools', pins);
  const path = toolPath(name, pins);
  if (existsSync(path)) return path;
  await using _one = await lock(join(cacheFolder(), `${name}.lock`));
  if (!existsSync(path)) await goBuild({ name, module, package: goPackage, tags, output: path, log });
  return path;
}

/** Where a tool is once it has been built. */
export function toolPath(name: string, pins = name): string {
  const folder = join(import.meta.dirname, 'tools', pins);
  const sources = readdirSync(folder).filter((file) => file === 'go.mod' || file.endsWith('.go'));
  const hash = createHash('sha256');
  for (const file of sources.sort()) hash.update(readFileSync(join(folder, file)));
  return join(cacheFolder(), `${name}-${hash.digest('hex').slice(0, 12)}`, name);
}
