import type { EngineFacts } from '../../engine-port/facts.ts';
import type { InfoAnswer } from './answers.ts';
import type { Dialect } from './dialect.ts';

/** The runtimes that an engine has, each once and sorted. podman also names those that may not be installed. */
export function runtimesOf({ Runtimes = {}, DefaultRuntime }: InfoAnswer, { choosesRuntime }: Dialect): string[] {
  if (choosesRuntime) return Object.keys(Runtimes).sort();
  const own = DefaultRuntime?.split('/').at(-1);
  return own ? [own] : [];
}

/** Whether an engine gives containers CDI devices, and where it looks for them. */
export function cdiOf(
  { CDISpecDirs }: InfoAnswer,
  version: string | undefined,
  { cdiSince }: Dialect,
): Pick<EngineFacts, 'cdi' | 'cdiDirectories'> {
  const directories = CDISpecDirs ?? [];
  if (directories.length > 0) return { cdi: true, cdiDirectories: directories };
  const [major = 0, minor = 0] = (version ?? '').split('.').map((part) => Number.parseInt(part, 10) || 0);
  return { cdi: cdiSince !== undefined && (major - cdiSince[0] || minor - cdiSince[1]) >= 0 };
}
