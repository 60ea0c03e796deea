import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../paths.ts';

/** What measures or changes the whole process. */
const OF_THE_PROCESS = /process\.(memoryUsage|cpuUsage)|\b(startCallCounter|expectShortTurns|tooSlow)\(|vi\.stubEnv\(/;

/** The files of these tests that need a process of their own: they measure or change it. */
export const filesAlone = (include: readonly string[], exclude: readonly string[]): string[] =>
  globSync(include, { cwd: ROOT, exclude }).filter((file) =>
    OF_THE_PROCESS.test(readFileSync(join(ROOT, file), 'utf8')),
  );
