import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { FIELDS } from '../agent/src/engines/_fields.ts';
import { ROOT } from './paths.ts';

/**
 * Writes docs/engines.md: runs the contract test of each container field on every engine, and writes the results.
 *
 *     node hack/engines-doc.ts
 *
 * Requires what the tests of the engines require: a machine where docker and podman are installed or can be.
 * hack/engines-doc.test.ts checks that the file in the repository has exactly the rows of the table.
 */

const FILE = join(ROOT, 'docs/engines.md');

interface Result {
  kind: string;
  version: string;
  /** the result of each row: `honoured`, or why it is not */
  fields: Record<string, string>;
}

/** The page. Pure. */
export function render(results: readonly Result[]): string {
  const notes: string[] = [];
  const cell = (text: string | undefined) => {
    if (text === 'honoured') return 'yes';
    if (text === undefined) return 'not tried';
    const known = notes.indexOf(text);
    return `no [${known < 0 ? notes.push(text) : known + 1}]`;
  };
  const rows = FIELDS.map(({ field, observed }) => [
    field,
    ...results.map(({ fields }) => cell(fields[field])),
    observed,
  ]);
  const line = (cells: readonly string[]) => `| ${cells.map((text) => text.replaceAll('|', '\\|')).join(' | ')} |`;
  const head = ['field', ...results.map(({ kind, version }) => `${kind} ${version}`), 'observed by'];
  return `# What each engine honours

Made by \`node hack/engines-doc.ts\`, which runs every row on every engine; do not edit. A field that an engine cannot honour is
left out, the container runs without it, and \`notHonoured\` in the status of the microservice says so.

${[line(head), line(head.map(() => '---')), ...rows.map(line)].join('\n')}

${notes.map((note, index) => `[${index + 1}] ${note}`).join('\n\n')}

## Where the engines differ without a field showing it

- **Limits of processes.** podman sets limits of its own on every container and cannot start one where the machine grants less.
  There the agent gives its own limits instead, and logs it.
- **Health checks.** podman leaves them to systemd. Where a check is overdue the agent has podman carry it out, so that they take
  place without systemd as well; a probe that exceeds its timeout is given up and counts as failed.
- **Names.** podman needs netavark and aardvark-dns for names on a network; without them the agent warns, and \`names\` does not
  hold.
- **A start that fails.** podman keeps the ports of such a container for some seconds; an older one that is to take over again
  is started as soon as they are free.
- **Logs.** docker keeps two files of \`logSize\` each, podman one, which it empties when it is full. podman cuts
  lines longer than 8 KiB in pieces and may leave out the first of them where only the last lines are asked for. The embedded engine keeps two
  files of \`logSize\` each; while the agent is away it bounds no log.
- **Files outside volumes.** The embedded engine gives a container a new file system at each start, with docker and podman they stay.
- **Stops by other programs.** containerd does not say who ended a container: with the embedded engine a stop by another program is a crash, with
  docker it is none.
- **Cut downloads.** The embedded engine continues a layer where the connection to the registry was cut.
- **Labels of images.** A container of the embedded engine has no labels of its image.
- **Images for another platform.** The embedded engine pulls the image of the machine's own platform as well.
`;
}

function run(): Result[] {
  const folder = mkdtempSync(join(tmpdir(), 'skerry-engines-'));
  try {
    const file = join(folder, 'fields.json');
    const { SKERRY_ENGINE: _one, ...env } = process.env;
    const test = ['run', '--project', 'engine', 'agent/src/engines/fields.engine.test.ts'];
    const { status } = spawnSync(process.execPath, [join(ROOT, 'node_modules/vitest/vitest.mjs'), ...test], {
      cwd: ROOT,
      env: { ...env, SKERRY_FIELDS_OUT: file },
      stdio: ['ignore', 'inherit', 'inherit'],
    });
    if (status !== 0) throw new Error('a row failed; the page stays as it is');
    return JSON.parse(readFileSync(file, 'utf8'));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (import.meta.main) writeFileSync(FILE, render(run()));
