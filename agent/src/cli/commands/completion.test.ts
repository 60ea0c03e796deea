import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { installPackages, isThere } from '../../../../hack/apt.ts';
import { temporaryFolder } from '../../../../testing/temporary-folder.ts';
import { GLOBAL_FLAGS } from '../cli.ts';
import { COMMANDS } from '../commands.ts';
import { completionScript } from './completion.ts';

/** The completions of zsh and fish in these shells, which Debian has. bash, which every machine has, is in cli.test.ts. */

const SHELLS = ['zsh', 'fish'];

describe.runIf(process.env.SKERRY_NIGHTLY)('a line that begins with', () => {
  const folder = temporaryFolder();
  writeFileSync(join(folder, 'manifest.yaml'), '');

  beforeAll(async () => {
    await installPackages({
      packages: SHELLS,
      missing: () => SHELLS.filter((shell) => !isThere(`/usr/bin/${shell}`)).join(', '),
      why: 'Their completions are tested here',
      elsewhere: 'zsh 5.9 and fish 3.6, or later',
    });
    for (const shell of ['zsh', 'fish'] as const)
      writeFileSync(join(folder, shell), completionScript(shell, { commands: COMMANDS, flags: GLOBAL_FLAGS }));
  }, 300_000);

  const run = (command: string, ...args: string[]) => {
    const { stdout, stderr } = spawnSync(command, args, { cwd: folder, encoding: 'utf8', timeout: 30_000 });
    expect(stderr).toBe('');
    return stdout.split('\n').filter(Boolean);
  };

  /** What the completion gives to zsh, which matches it with the beginning of the last word. */
  const zsh = (line: string) => {
    const given = line.split(' ').map((word) => `'${word}'`);
    const script = [
      'compadd() { shift; print -l -- $@ }',
      "_files() { print 'a file' }",
      'compdef() { }',
      `source ${join(folder, 'zsh')}`,
      `words=(${given.join(' ')}); CURRENT=${given.length}`,
      '_skerry_agent',
    ];
    return run('zsh', '-f', '-c', script.join('\n'));
  };
  const fish = (line: string) =>
    run('fish', '--no-config', '-c', `source ${join(folder, 'fish')}; complete --do-complete '${line}'`);

  const LINES: Record<string, string[]> = {
    'skerry-agent gps ': ['get', 'set'],
    'skerry-agent -o json gps ': ['get', 'set'],
    'skerry-agent --output=json --quiet gps ': ['get', 'set'],
    'skerry-agent --config gps gps ': ['get', 'set'],
  };
  for (const [line, words] of Object.entries(LINES))
    test(`"${line}" continues with ${words.join(', ')}`, () => {
      expect(zsh(line)).toEqual(words);
      expect(fish(line)).toEqual(words);
    });

  test('the program alone continues with every command, and a command with its flags', () => {
    const first = [...new Set(COMMANDS.map(({ name }) => name.split(' ')[0]))].sort();
    expect(zsh('skerry-agent ').sort()).toEqual(first);
    expect(fish('skerry-agent ').sort()).toEqual(first);
    expect(zsh('skerry-agent ms rm ')).toContain('--cleanup');
    expect(fish('skerry-agent ms rm --cl')).toEqual(['--cleanup']);
  });

  test('a flag that takes a file continues with files', () => {
    expect(zsh('skerry-agent --socket ')).toEqual(['a file']);
    expect(fish('skerry-agent --socket mani')).toEqual(['manifest.yaml']);
    expect(fish('skerry-agent deploy -f mani')).toEqual(['manifest.yaml']);
  });
});
