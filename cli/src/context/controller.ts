import { readFileSync } from 'node:fs';
import type { FrameSocketRequest } from '../../../src/session-client/socket.ts';
import { line } from '../../../src/terminal/safe.ts';
import type { Command, CommandContext } from './command.ts';
import { controllerUrl, isReadable } from './controller-address.ts';
import { readJson, tokenRefusal } from './controller-read.ts';
import { UsageError } from './errors.ts';
import { tokenSource } from './token.ts';

/**
 * The way of sessions and reads to the controller, which the API server cannot be: its proxy passes no credentials on. The address and the
 * token are the user's to give; without an address, a port of a replica is forwarded.
 */
export interface ControllerAccess {
  /** `path`: below /api/v3 */
  socket(path: string, query?: URLSearchParams): Promise<FrameSocketRequest>;
  /** The JSON of a GET. Rejects with a CommandError when the controller refuses. */
  read(path: string, signal: AbortSignal): Promise<unknown>;
}

/** Flags of the commands that need a session. */
export const CONTROLLER_FLAGS: NonNullable<Command['flags']> = {
  controller: {
    value: 'https://HOST:PORT',
    about:
      'where the controller is reached; https:// may be left out with --ca, and http:// for localhost; else $SKERRY_CONTROLLER, else a port of its pods is forwarded',
  },
  ca: { value: 'FILE', about: "certificate of the controller's authority (PEM)" },
  'service-account': {
    value: 'NAME',
    about:
      'act as this ServiceAccount, with a token of ten minutes; else with $SKERRY_TOKEN, else the token in the file that $SKERRY_TOKEN_FILE names, else the token of the kubeconfig',
  },
  verbose: { short: 'v', about: 'say what the controller says of the connection' },
};

/** What those commands have at the end of their help. */
export const CONTROLLER_DETAILS = [
  'The controller is reached at --controller or $SKERRY_CONTROLLER, else through the API server by a port-forward to its pods, which needs the ClusterRole edit of Kubernetes in its namespace.',
];

/**
 * The way to the controller that the command line or the environment names, else a port-forward. Throws UsageError for an address that
 * is none, CommandError where no port can be forwarded.
 */
export async function controllerOf(context: CommandContext): Promise<ControllerAccess> {
  const { flags, env } = context;
  const address = textOf(flags.controller) || env.SKERRY_CONTROLLER || undefined;
  const caFile = textOf(flags.ca);
  const ca = caFile === undefined ? undefined : readFileSync(caFile, 'utf8');
  const way = address === undefined ? await forwarded(context, ca) : addressed(context, address, ca);
  const token = tokenSource(context);
  async function socket(path: string, query?: URLSearchParams): Promise<FrameSocketRequest> {
    const text = query?.toString();
    const headers = { authorization: `Bearer ${await token()}` };
    const { base, ...connection } = await way();
    return { url: `${base}/api/v3${path}${text ? `?${text}` : ''}`, headers, ...connection };
  }
  return { socket, read: async (path, signal) => readJson(await socket(path), signal) };
}

/** How one session reaches the controller: `base` is what its URL begins with. */
type Way = () => Promise<{ base: string } & Pick<FrameSocketRequest, 'ca' | 'through'>>;

async function forwarded(context: CommandContext, ca: string | undefined): Promise<Way> {
  const { forwardTo } = await import('./forward.ts');
  const { host, connect } = await forwardTo(context, ca);
  // TLS, where there is any, is that of the connection.
  return async () => ({ base: `ws://${host}`, through: await connect() });
}

function addressed({ err }: CommandContext, address: string, ca: string | undefined): Way {
  const url = controllerUrl(address, ca !== undefined);
  if (isReadable(url) && !address.includes('://'))
    throw new UsageError(
      `the address of the controller is "${address}", and the token would go there in clear text: ` +
        `name https://${address}, or http://${address} where others cannot listen`,
    );
  if (isReadable(url))
    err('warning: over http, whoever is between here and the controller can read the token and what you type\n');
  const base = url.origin.replace(/^http/, 'ws');
  return async () => ({ base, ...(ca !== undefined && { ca }) });
}

const textOf = (flag: unknown) => (typeof flag === 'string' && flag !== '' ? flag : undefined);

/** Why a session could not be opened, with what helps. */
export function sessionRefusal(end: { status?: number; reason: string; code: number }): string {
  const { status, code } = end;
  const reason = line(end.reason);
  switch (status) {
    case 401:
      return tokenRefusal(reason);
    case 403:
      return `not permitted: ${reason}; the roles skerry-developer and skerry-sre permit sessions`;
    case 404:
      return `the controller has no such session: ${reason}; it may be too old`;
    case 429:
    case 503:
      return `the controller cannot open a session now: ${reason}`;
    case undefined:
      break;
    default:
      return `the controller answered with ${status}: ${reason}`;
  }
  if (code === 1001) return 'the replica of the controller shut down, and the session with it; begin another one';
  if (code === 1006) return `the connection to the controller ${reason ? `failed: ${reason}` : 'was lost'}`;
  return reason || `the session was closed with ${code}`;
}
