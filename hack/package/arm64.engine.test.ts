import { execFile } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { AGENT_VERSION } from '../../agent/src/domain/names.ts';
import { temporaryFolder } from '../../testing/temporary-folder.ts';
import { NODE_FLAGS } from '../agent-release.ts';
import { installPackages } from '../apt.ts';
import { bundle } from '../build.ts';
import { librariesFor, nodeOf } from './parts.ts';

/** What a release has for arm64, run by qemu on whatever machine this is; it needs `make nightly`, which may install qemu. */
const QEMU = '/usr/bin/qemu-aarch64-static';
const nightly = test.runIf(process.env.SKERRY_NIGHTLY);
const dir = temporaryFolder();
let program: readonly string[];

beforeAll(async () => {
  if (!process.env.SKERRY_NIGHTLY) return;
  await installPackages({
    packages: ['qemu-user-static'],
    missing: () => (existsSync(QEMU) ? '' : QEMU),
    why: 'Programs for arm64 cannot be run',
    elsewhere: 'https://www.qemu.org/download/',
  });
  for (const { path, content = '', link, mode = 0o644 } of await librariesFor('arm64')) {
    mkdirSync(dirname(join(dir, path)), { recursive: true });
    if (link) symlinkSync(join(dir, link), join(dir, path));
    else writeFileSync(join(dir, path), content);
    if (!link) chmodSync(join(dir, path), mode);
  }
  const { path } = await bundle('skerry-agent', dir);
  program = [QEMU, '-L', dir, (await nodeOf('linux-arm64')).binary, ...NODE_FLAGS, path];
}, 600_000);

function run(...args: string[]): Promise<{ code: number; output: string }> {
  const [command = '', ...rest] = [...program, ...args];
  return new Promise((resolve) => {
    execFile(command, rest, { timeout: 300_000 }, (error, stdout, stderr) =>
      resolve({ code: Number(error?.code ?? 0), output: `${stdout}${stderr}` }),
    );
  });
}

nightly(
  'the agent and the Node of a release start on arm64, with the libraries of its image',
  async () => {
    expect(await run('version')).toEqual({ code: 0, output: `skerry-agent ${AGENT_VERSION}\n` });
    // The doctor loads the settings, the database and the engine's client; there is neither agent nor engine.
    writeFileSync(
      join(dir, 'config.yaml'),
      `diskDirectory: ${dir}/data\ncontainerEngineUrl: unix://${dir}/none.sock\n`,
    );
    const { code, output } = await run('doctor', '--config', join(dir, 'config.yaml'));
    expect({ code, output }).toMatchObject({ code: 1, output: expect.stringContaining('FAILED') });
  },
  600_000,
);
