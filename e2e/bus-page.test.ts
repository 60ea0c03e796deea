import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { shellIn, type Typed, type Typing, typeAsWritten, typedOf } from '../agent/src/_typed-page.ts';
import { installPackages, isThere } from '../hack/apt.ts';
import { loadImage } from '../hack/engine-api.ts';
import { buildImage, buildIndex, saveImage } from '../hack/image.ts';
import { ROOT } from '../hack/paths.ts';
import { freePort } from '../hack/ports.ts';
import { programFiles } from '../hack/shell-image.ts';
import type { StackFile } from '../hack/stack/files.ts';
import { buildTool } from '../hack/tool.ts';
import { atEnd } from '../testing/at-end.ts';
import { localStack } from './_local-stack.ts';

/**
 * docs/bus.md as a reader types it on `make up`: a rule and an application, a client that publishes, a client that is stopped, a revocation, a
 * device. In the night alone: the command line of NATS is built for it, which takes minutes.
 */
const isNightly = process.env.SKERRY_NIGHTLY !== undefined;
const PAGE = readFileSync(join(ROOT, 'docs/bus.md'), 'utf8');

/** What a second look may show, when the first came too early. */
const isLook = (command: string) => /^kubectl (get|skerry logs|wait)/.test(command);

test.skipIf(!isNightly)(
  'docs/bus.md holds as typed',
  async () => {
    const nats = await buildTool('natscli', 'github.com/nats-io/natscli/nats', {
      log: (text) => process.stderr.write(`${text}\n`),
    });
    await installPackages({
      packages: ['mosquitto-clients'],
      missing: () => (isThere('/usr/bin/mosquitto_pub') ? '' : 'mosquitto_pub'),
      why: 'The device of the page is missing',
      elsewhere: 'https://mosquitto.org/download',
    });
    const home = await localStack({ BUS_ENABLED: 'true' });
    const programs = join(home, 'programs');
    mkdirSync(programs);
    symlinkSync(nats, join(programs, 'nats'));
    const env = { HOME: home, PATH: `${programs}:${process.env.PATH}` };
    const shell = shellIn({ folder: home, env, patience: 120_000 });
    const type: Typing['type'] = (command) => shell(`. .skerry/env\n${command}`);
    const { engine } = JSON.parse(readFileSync(join(home, '.skerry/stack.json'), 'utf8')) as StackFile;
    await loadImage(engine.url, saveImage(boxWith(nats), imageOf(PAGE)));

    // The usual ports may be in use on this machine.
    const ports = { busServerPort: await freePort(), busMqttPort: await freePort(), busLeafPort: await freePort() };
    await type(`kubectl patch edgenode local --type merge -p '${JSON.stringify({ spec: ports })}'`);
    const page = PAGE.replaceAll('localhost:4222', `localhost:${ports.busServerPort}`).replaceAll(
      '--port 8883',
      `--port ${ports.busMqttPort}`,
    );
    const typeAll = async (commands: readonly Typed[]) => {
      expect(commands.length).toBeGreaterThan(0);
      for (const typed of commands) await typeAsWritten(typed, { type, isLook, lookPatience: 120_000 });
    };

    const talk = sectionOf(page, 'Two containers talk');
    writeFileSync(join(home, 'plant.yaml'), yamlOf(talk));
    await typeAll(typedOf(talk));
    await typeAll(typedOf(sectionOf(page, 'A program of yours, and what a rule stops')));

    const [revoke, ...more] = typedOf(sectionOf(page, 'Revoke'));
    expect(more).toEqual([]);
    const [answer = '', ...seen] = revoke?.output ?? [];
    const terminal = `. .skerry/env\nexec nats --server nats://localhost:${ports.busServerPort} --creds laptop.creds subscribe 'plant.>' > terminal 2>&1`;
    const listener = spawn('sh', ['-c', terminal], { cwd: home, env: { ...process.env, ...env } });
    atEnd(() => void listener.kill());
    const look = (output: string[]) =>
      typeAsWritten({ command: 'cat terminal', output: ['...', ...output, '...'] }, { type, isLook: () => true });
    await look(['21.5']);
    await typeAll([{ command: revoke?.command ?? '', output: [answer] }]);
    expect(seen.length).toBeGreaterThan(1);
    await look(seen);

    await typeAll(typedOf(sectionOf(page, 'A device')));
  },
  900_000,
);

/** The text below a heading. */
function sectionOf(page: string, heading: string): string {
  const section = page.split('\n## ').find((one) => one.startsWith(`${heading}\n`));
  if (section === undefined) throw new Error(`the page has no "${heading}"`);
  return section;
}

/** The file of the first indented block. */
const yamlOf = (section: string): string => {
  const [block = ''] = /(?:^ {4}.*\n)+/m.exec(section) ?? [];
  return block.replaceAll(/^ {4}/gm, '');
};

/** The reference of the image on the page, which the engine here cannot pull. */
const imageOf = (page: string): string => /amd64: (\S+),/.exec(page)?.[1] ?? '';

/** What the page uses of that image: a shell, a user, and the command line of NATS. */
const boxWith = (nats: string) =>
  buildIndex([
    buildImage({
      cmd: ['/bin/sh'],
      env: { PATH: '/bin' },
      files: [
        ...programFiles({ sh: '/bin/sh' }),
        { path: '/bin/nats', content: readFileSync(nats), mode: 0o755 },
        { path: '/etc/passwd', content: 'root:x:0:0:root:/root:/bin/sh\n' },
        { path: '/root' },
        { path: '/tmp' },
      ],
    }),
  ]);
