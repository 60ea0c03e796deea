import { spawnSync } from 'node:child_process';

/**
 * The standard input, whose raw mode also passes what a program writes on as it is. In that of Node this terminal begins lines at the
 * margin still, which the terminal of the program does already: full-screen programs mean a bare line feed.
 */
export function rawInput(input: typeof process.stdin): typeof process.stdin {
  if (!input.isTTY) return input;
  const setRawMode = input.setRawMode.bind(input);
  input.setRawMode = (isRaw) => {
    setRawMode(isRaw);
    if (isRaw) spawnSync('stty', ['-opost'], { stdio: ['inherit', 'ignore', 'ignore'], timeout: 2_000 });
    return input;
  };
  return input;
}
