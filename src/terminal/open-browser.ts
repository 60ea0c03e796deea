import { spawn } from 'node:child_process';

/** Opens the page in the browser of the desktop, where there is one; nothing happens where there is none. */
export function openBrowser(url: string): void {
  const command = process.platform === 'darwin' ? 'open' : 'xdg-open';
  spawn(command, [url], { stdio: 'ignore', detached: true })
    .on('error', () => {})
    .unref();
}
