import { spawnSync } from 'node:child_process';

/**
 * The standard input, whose raw mode also disables output processing. Node's raw mode keeps OPOST on, so that the local terminal
 * turns LF into CRLF a second time; full-screen programs need a bare LF.
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
