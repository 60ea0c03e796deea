import { execFileSync } from 'node:child_process';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { installPackages, isThere } from './apt.ts';
import { freePort } from './ports.ts';
import { type Daemon, startDaemon } from './process.ts';
import type { Log } from './progress.ts';
import { waitFor } from './wait.ts';

const SERVER = '/usr/sbin/sshd';

/** The OpenSSH server of Debian, on loopback, where one user may do nothing but open tunnels. */
export class Sshd {
  readonly port: number;
  readonly username = userInfo().username;
  readonly #dir: string;
  #daemon: Daemon | undefined;

  private constructor(dir: string, port: number) {
    this.#dir = dir;
    this.port = port;
  }

  /** `restrictions`: lines for the user's block of the server's configuration. */
  static async start({ dir, restrictions, log }: { dir: string; restrictions: string; log?: Log }): Promise<Sshd> {
    await installPackages({
      packages: ['openssh-server', 'openssh-client'],
      missing: () => [SERVER, '/usr/bin/ssh', '/usr/bin/ssh-keygen'].filter((program) => !isThere(program)).join(', '),
      why: 'No ssh server runs here',
      elsewhere: 'OpenSSH 8.4 or later, with sshd in /usr/sbin',
      ...(log && { log }),
    });
    mkdirSync(dir, { recursive: true });
    const sshd = new Sshd(dir, await freePort());
    sshd.newHostKey();
    const lines = [
      `ListenAddress 127.0.0.1:${sshd.port}`,
      `HostKey ${join(dir, 'host')}`,
      `AuthorizedKeysFile ${join(dir, 'authorized_keys')}`,
      'PidFile none',
      'StrictModes no',
      'UsePAM no',
      'PasswordAuthentication no',
      'KbdInteractiveAuthentication no',
      'PermitRootLogin prohibit-password',
      `Match User ${sshd.username}`,
      restrictions,
    ];
    writeFileSync(join(dir, 'sshd_config'), `${lines.join('\n')}\n`);
    writeFileSync(join(dir, 'authorized_keys'), '');
    await sshd.start();
    return sshd;
  }

  /** Starts the server at its port. */
  async start(): Promise<void> {
    // Where the server of Debian leaves its privileges; the boot makes it elsewhere.
    mkdirSync('/run/sshd', { recursive: true, mode: 0o755 });
    const args = ['-D', '-e', '-f', join(this.#dir, 'sshd_config')];
    const daemon = await startDaemon({ name: `sshd-${this.port}`, dir: this.#dir, command: SERVER, args });
    this.#daemon = daemon;
    const listens = () =>
      new Promise<boolean>((resolve) => {
        daemon.assertRunning();
        const socket = connect(this.port, '127.0.0.1');
        socket.once('error', () => resolve(false));
        socket.once('connect', () => {
          socket.destroy();
          resolve(true);
        });
      });
    await waitFor(listens, { what: 'sshd to listen', timeoutMs: 20_000, intervalMs: 50 });
  }

  /** Ends the server and every session, as a loss of power would. */
  async kill(): Promise<void> {
    const server = this.#daemon;
    if (!server) return;
    for (const pid of sessionsOf(server.pid)) process.kill(pid, 'SIGKILL');
    await server.kill();
    this.#daemon = undefined;
  }

  /** Gives the server another host key, which it has when it starts next. */
  newHostKey(): void {
    for (const name of ['host', 'host.pub']) rmSync(join(this.#dir, name), { force: true });
    makeKey(join(this.#dir, 'host'), 'ed25519');
  }

  /** The host keys as ssh-keyscan prints them. */
  get knownHosts(): string {
    return `[127.0.0.1]:${this.port} ${readFileSync(join(this.#dir, 'host.pub'), 'utf8')}`;
  }

  /** A private key with which the user may log in, in the form of PEM or of OpenSSH. */
  allow(name: string, form: 'PEM' | 'OpenSSH'): string {
    const file = join(this.#dir, name);
    makeKey(file, form === 'PEM' ? 'rsa' : 'ed25519', form === 'PEM' ? ['-m', 'PEM'] : []);
    writeFileSync(join(this.#dir, 'authorized_keys'), readFileSync(`${file}.pub`, 'utf8'), { flag: 'a' });
    return readFileSync(file, 'utf8');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

const makeKey = (file: string, type: 'rsa' | 'ed25519', more: readonly string[] = []) =>
  execFileSync('ssh-keygen', ['-q', '-t', type, '-N', '', '-C', '', '-f', file, ...more]);

/** The processes of the sessions of a server: each begins as its child. */
function sessionsOf(server: number): number[] {
  const parents = readdirSync('/proc').flatMap((name): [number, number][] => {
    try {
      const stat = readFileSync(`/proc/${Number(name)}/stat`, 'utf8');
      return [[Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])]];
    } catch {
      return [];
    }
  });
  const below = (pid: number): number[] =>
    parents.flatMap(([child, parent]) => (parent === pid ? [child, ...below(child)] : []));
  return below(server);
}
