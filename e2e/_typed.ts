import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { typedOf } from '../agent/src/_typed-page.ts';
import { ROOT } from '../hack/paths.ts';
import { atEnd } from '../testing/at-end.ts';
import { oneTimeCode } from '../testing/one-time-code.ts';
import { until } from './_stack.ts';

/** Whether a command printed what its page says, in which three dots stand for any text of a line. */
function isAsExpected(output: string, expected: string): boolean {
  const [first = '', ...others] = expected.trim().split('...');
  if (!output.trim().startsWith(first)) return false;
  let rest = output.trim().slice(first.length);
  for (const [i, part] of others.entries()) {
    const at = i === others.length - 1 && part !== '' ? rest.lastIndexOf(part) : rest.indexOf(part);
    if (at < 0) return false;
    rest = rest.slice(at + part.length);
  }
  return rest === '' || expected.trim().endsWith('...');
}

/** A shell of somebody who reads a page, which has what its earlier commands left; it ends with the present test. */
export function shellOfReader({ cwd, env }: { cwd: string; env: NodeJS.ProcessEnv }) {
  const child = spawn('/bin/sh', [], { cwd, env, stdio: ['pipe', 'pipe', 'inherit'] });
  atEnd(() => void child.kill('SIGKILL'));
  let printed = '';
  child.stdout.on('data', (piece) => {
    printed += piece;
  });
  let serial = 0;
  /** What a command prints, errors included. */
  return async (command: string): Promise<string> => {
    printed = '';
    const mark = `=== ${++serial} ===`;
    child.stdin.write(`{ ${command}\n} 2>&1\necho '${mark}'\n`);
    await until(`the end of ${command}`, async () => printed.includes(mark), { timeoutMs: 120_000 });
    return printed.slice(0, printed.indexOf(mark));
  };
}

/** How long an API server takes to know an issuer. */
const KNOWN_MS = 120_000;

/**
 * Types the commands of docs/identity.md below a heading, or above all headings. Codes come from an app for codes. Resolves with the commands that
 * print something else than the page says.
 */
export async function typeIdentityPage(
  type: (command: string) => Promise<string>,
  headings: readonly string[],
): Promise<object[]> {
  const [preface = '', ...sections] = readFileSync(join(ROOT, 'docs/identity.md'), 'utf8').split('\n## ');
  const wrong: object[] = [];
  let secret = '';
  for (const heading of headings) {
    const text = heading === '' ? preface : sections.find((one) => one.startsWith(`${heading}\n`));
    const commands = typedOf(text ?? '');
    if (commands.length === 0) throw new Error(`the page has no command below "${heading}"`);
    for (const { command, output: lines } of commands) {
      const expected = lines.join('\n');
      const codes = { code: oneTimeCode(secret, Date.now() - 30_000), totp: oneTimeCode(secret) };
      const line = command.replace(
        /"(code|totp)": "\d{6}"/,
        (_, name: keyof typeof codes) => `"${name}": "${codes[name]}"`,
      );
      const answer = () => type(line);
      let output = await answer();
      if (line.startsWith('kubectl --context') && !isAsExpected(output, expected))
        await until(
          `the API server to know the issuer, for ${line}`,
          async () => {
            output = await answer();
            return !output.includes('must be logged in');
          },
          { timeoutMs: KNOWN_MS },
        );
      secret = /"secret":"([A-Z2-7]+)"/.exec(output)?.[1] ?? secret;
      if (!isAsExpected(output, expected)) wrong.push({ command, expected, output });
    }
  }
  return wrong;
}
