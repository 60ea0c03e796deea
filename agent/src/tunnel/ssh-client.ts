import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import type { Writable } from 'node:stream';
import type { TunnelView } from '../../../src/wire/tunnel.ts';
import { exists, makeDirectory, removePath, writeSynced } from '../machine/disk.ts';
import { sshArguments } from './ssh-arguments.ts';
import { reasonOf, SshMessages } from './ssh-messages.ts';

/** Opens tunnels with the ssh client of this machine. */
export interface SshClient {
  /**
   * Opens a tunnel and resolves once it has ended, with the reason for people. `opened` is called when the server has accepted it. The
   * signal ends it. Throws when there is no ssh client, or its files cannot be written.
   */
  open(view: TunnelView, options: { signal: AbortSignal; opened(): void }): Promise<string>;
  /** Removes key and password from this machine. */
  clear(): void;
}

/** Milliseconds that an ssh process gets to end. */
const GRACE = 3000;

/**
 * Runs a program until it ends, or until the descriptor 3 is closed: the kernel closes it with the agent, however the agent ends. The
 * program gets a moment to end by itself.
 */
const WITH_THE_AGENT = `
"$@" 3<&- & program=$!
(while read -r line <&3; do :; done; kill "$program"; sleep 2; kill -9 "$program") >/dev/null 2>&1 & watcher=$!
exec 3<&-
wait "$program"; code=$?
kill "$watcher" 2>/dev/null
exit "$code"
`;

/** The ssh client of this machine; `directory` has its files, and nothing else. */
export function sshClient(directory: string, path: string | undefined = process.env.PATH): SshClient {
  const file = (name: string) => join(directory, name);

  /** Writes the files of a tunnel, and removes the files of the tunnel before it. */
  function write({ knownHosts, rsaKey, password }: TunnelView) {
    removePath(directory);
    makeDirectory(directory, 0o700);
    const put = (name: string, text: string, mode = 0o600) => {
      writeSynced(file(name), text, mode);
      return file(name);
    };
    return {
      knownHosts: put('known_hosts', asLines(knownHosts)),
      key: rsaKey === '' ? undefined : put('key', asLines(rsaKey)),
      ...(password !== '' && {
        password: put('password', password.replace(/\r?\n$/, '')),
        askpass: put('askpass', '#!/bin/sh\nexec cat "$SKERRY_TUNNEL_PASSWORD"\n', 0o700),
      }),
    };
  }

  return {
    async open(view, { signal, opened }) {
      const ssh = findProgram('ssh', path);
      if (ssh === undefined) throw new Error('this machine has no ssh client; install openssh-client');
      const files = write(view);
      const env = {
        PATH: path,
        LC_ALL: 'C',
        ...(files.askpass && {
          SSH_ASKPASS: files.askpass,
          SSH_ASKPASS_REQUIRE: 'force',
          SKERRY_TUNNEL_PASSWORD: files.password,
        }),
      };
      const child = spawn('/bin/sh', ['-c', WITH_THE_AGENT, 'sh', ssh, ...sshArguments(view, files)], {
        env,
        cwd: '/',
        detached: true,
        stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
      });
      const messages = new SshMessages(opened);
      child.stderr?.setEncoding('utf8').on('data', (piece: string) => messages.read(piece));
      const code = await ended(child, signal);
      return reasonOf(view, messages.errors, code);
    },
    clear: () => removePath(directory),
  };
}

/** Resolves with the exit code; the signal ends the process, by force after a while. */
function ended(child: ChildProcess, signal: AbortSignal): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const lifeline = child.stdio[3] as Writable;
    lifeline.on('error', () => {});
    let force: NodeJS.Timeout | undefined;
    const end = () => {
      lifeline.destroy();
      force = setTimeout(() => killGroup(child.pid), GRACE);
    };
    const finish = () => {
      clearTimeout(force);
      signal.removeEventListener('abort', end);
      lifeline.destroy();
    };
    child.once('error', (error) => {
      finish();
      reject(error);
    });
    child.once('close', (code) => {
      finish();
      resolve(code);
    });
    signal.addEventListener('abort', end);
    if (signal.aborted) end();
  });
}

function killGroup(pid: number | undefined): void {
  try {
    if (pid !== undefined) process.kill(-pid, 'SIGKILL');
  } catch {
    // It has ended meanwhile.
  }
}

/** Text with plain line ends, and one at its end: OpenSSH reads no key without. */
const asLines = (text: string) => `${text.replaceAll('\r\n', '\n').trimEnd()}\n`;

/** Where programs are on machines whose service manager sets no path. */
const PLACES = ['/usr/local/bin', '/usr/bin', '/bin'];

const findProgram = (name: string, path: string | undefined): string | undefined =>
  [...(path?.split(':').filter((each) => each.startsWith('/')) ?? PLACES)]
    .map((place) => join(place, name))
    .find(exists);
