import { spawn, spawnSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { mkdirSync, renameSync, rmSync } from 'node:fs';
import { setPriority, totalmem } from 'node:os';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import { formatDuration, type Log } from './progress.ts';

export interface GoBuildOptions {
  /** Its name in messages. */
  name: string;
  /** The folder with go.mod. */
  module: string;
  /** The package, as an import path or a path within the module. */
  package: string;
  output: string;
  /** `-X` settings of the linker, by variable. */
  variables?: Record<string, string>;
  arch?: string;
  /** The toolchain whatever Go is installed, such as go1.26.8; the installed one when absent. */
  toolchain?: string | undefined;
  /** Build tags. */
  tags?: readonly string[];
  log: Log;
  /** Aborts the build. */
  signal?: AbortSignal | undefined;
}

/**
 * Whether builds may use more memory to take less time: the compiler then collects less garbage, which is a fifth of its
 * work, and two builds run in parallel, so that one uses the processors while the other one downloads or links.
 */
export const isRoomy = () => totalmem() >= 6 * 2 ** 30;

/** The version of the Go toolchain on PATH, such as `1.26.8`, or undefined when there is none. */
export function goVersion(): string | undefined {
  const result = spawnSync('go', ['env', 'GOVERSION'], { encoding: 'utf8' });
  return result.status === 0 ? result.stdout.trim().replace(/^go/, '') : undefined;
}

/**
 * Builds one static Go binary. It appears under its name only when it is complete. Logs its progress every ten seconds;
 * runs at low priority, since a Kubernetes build uses every core for minutes.
 */
export async function goBuild(options: GoBuildOptions): Promise<void> {
  const { name, module, output, variables = {}, arch, toolchain, tags = [], log } = options;
  const linker = ['-s', '-w', ...Object.entries(variables).map(([key, value]) => `-X ${key}=${value}`)];
  const partial = `${output}.${randomUUID()}.partial`;
  mkdirSync(dirname(output), { recursive: true });

  const start = performance.now();
  log(`Building ${name}${arch ? ` for ${arch}` : ''}`);
  const child = spawn(
    'go',
    [
      'build',
      '-v',
      '-trimpath',
      `-tags=${tags.join(',')}`,
      `-ldflags=${linker.join(' ')}`,
      '-o',
      partial,
      options.package,
    ],
    {
      cwd: module,
      env: {
        ...process.env,
        CGO_ENABLED: '0',
        GOFLAGS: '-mod=readonly -buildvcs=false',
        GOWORK: 'off',
        ...(toolchain && { GOTOOLCHAIN: toolchain }),
        ...(isRoomy() && { GOGC: process.env.GOGC ?? '400' }),
        ...(arch && { GOOS: 'linux', GOARCH: arch }),
      },
      stdio: ['ignore', 'ignore', 'pipe'],
      signal: options.signal,
    },
  );
  try {
    if (child.pid) setPriority(child.pid, 10);
  } catch {
    // It may have ended already; its exit code has the result.
  }

  let packages = 0;
  const last: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (/^[\w.~/-]+$/.test(line)) packages += 1;
    last.push(line);
    if (last.length > 20) last.shift();
  });
  const heartbeat = setInterval(() => {
    const doing = packages === 0 ? last.at(-1) : `${packages} packages compiled`;
    log(`  still building ${name}, ${formatDuration(performance.now() - start)}${doing ? `: ${doing}` : ''}`);
  }, 10_000);
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  }).finally(() => clearInterval(heartbeat));
  if (code !== 0) {
    rmSync(partial, { force: true });
    throw new Error(`go build of ${name} failed:\n${last.join('\n')}`);
  }
  renameSync(partial, output);
  log(`Built ${name} in ${formatDuration(performance.now() - start)}`);
}
