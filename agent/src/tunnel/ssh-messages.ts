import type { TunnelView } from '../../../src/wire/tunnel.ts';

/** Lines that are kept, and characters of each. */
const LINES = 32;
const LINE = 512;
/** A line of debugging by which ssh says that the server has accepted the forward. */
const FORWARDED = /^debug1: remote forward success for: listen /;
/** What ssh says besides errors with the option -v. */
const CHATTER = /^(debug\d: |OpenSSH_|Authenticated to |Authenticated using |Transferred: |Bytes per second: |@|\s*$)/;
/** Characters that a terminal would act on. */
const CONTROL = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]+/gu;

/** The messages of one ssh process, of which only the last errors are kept. */
export class SshMessages {
  readonly #opened: () => void;
  #rest = '';
  #lines: string[] = [];

  /** `opened` is called when the server has accepted the forward. */
  constructor(opened: () => void) {
    this.#opened = opened;
  }

  /** Reads a piece of what the process writes; pieces may end anywhere. */
  read(piece: string): void {
    const lines = (this.#rest + piece).split('\n');
    this.#rest = (lines.pop() ?? '').slice(0, LINE);
    for (const line of lines) this.#note(line);
  }

  #note(line: string): void {
    if (FORWARDED.test(line)) this.#opened();
    if (CHATTER.test(line)) return;
    this.#lines.push(line.slice(0, LINE).replace(CONTROL, ' ').trim());
    if (this.#lines.length > LINES) this.#lines.shift();
  }

  /** The errors, in their order. */
  get errors(): readonly string[] {
    return this.#rest === '' || CHATTER.test(this.#rest) ? this.#lines : [...this.#lines, this.#rest];
  }
}

/** What an error of ssh means, in words of the fix; the first row with a line that fits counts. */
const MEANINGS: readonly { of: RegExp; means(view: TunnelView, line: string): string }[] = [
  {
    of: /host key verification failed|identification has changed|no \S+ host key is known/i,
    means: ({ host }) =>
      `the host key of ${host} is none of knownHosts in the Secret of the tunnels; put the key of the server there only if you know that it is the server's`,
  },
  {
    of: /^load key /i,
    means: (_view, line) =>
      `the private key in the Secret of the tunnels cannot be used: ${line.replace(/^Load key "[^"]*": /i, '')}`,
  },
  {
    of: /permission denied/i,
    means: ({ host, username }, line) => `${host} refuses the login as ${username}: ${line.replace(/^.*?: /, '')}`,
  },
  {
    of: /remote port forwarding failed/i,
    means: ({ host, remotePort }) =>
      `${host} does not open its port ${remotePort}: it is in use there, or the server forbids it (AllowTcpForwarding, PermitListen)`,
  },
];

/** Why an ssh process ended, in one sentence. */
export function reasonOf(view: TunnelView, errors: readonly string[], code: number | null): string {
  for (const { of, means } of MEANINGS) {
    const line = errors.find((each) => of.test(each));
    if (line !== undefined) return means(view, line);
  }
  return (
    errors.at(-1) ??
    (code === 0 ? `${view.host} ended the connection` : `ssh ended with the code ${code ?? 'of a signal'}`)
  );
}
