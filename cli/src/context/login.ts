import { readFileSync } from 'node:fs';
import { line } from '../../../src/terminal/safe.ts';
import { askController } from './ask-controller.ts';
import { controllerUrl, isReadable } from './controller-address.ts';
import { CommandError, UnreachableError } from './errors.ts';

/** The routes of logins: the one part of REST for which a kubeconfig is no help, since they are where its credentials come from. */

/** Where people log in. */
export interface LoginPlace {
  /** `https://host:port` */
  origin: string;
  /** PEM; absent: an authority of the system */
  ca?: string;
}

export interface Tokens {
  accessToken: string;
  refreshToken?: string;
}

/** A login that the controller refused. */
export class LoginRefused extends CommandError {
  readonly status: number;
  readonly code: string;

  constructor(status: number, code: string, message: string) {
    super(message);
    [this.status, this.code] = [status, code];
  }
}

const CALL_MS = 20_000;
const MOST_BYTES = 256 * 1024;

/** Throws UsageError or CommandError for an address over which others could read a password. */
export function loginPlace(address: string | undefined, caFile: string | undefined): LoginPlace {
  if (address === undefined) throw new CommandError('name the controller with --controller or $SKERRY_CONTROLLER');
  const ca = caFile === undefined ? undefined : readFileSync(caFile, 'utf8');
  const url = controllerUrl(address.includes('://') ? address : `https://${address}`, ca !== undefined);
  if (isReadable(url))
    throw new CommandError(`the address of the controller is "${address}": a login needs https://, or this machine`);
  return { origin: url.origin, ...(ca !== undefined && { ca }) };
}

export interface LoginClient {
  password(given: { email: string; password: string; totp?: string }): Promise<Tokens>;
  /** The tokens of a login in the browser. */
  redeem(given: { code: string; codeVerifier: string }): Promise<Tokens>;
  refresh(refreshToken: string): Promise<Tokens>;
  logout(tokens: Tokens): Promise<void>;
}

export function loginClient(place: LoginPlace, signal: AbortSignal): LoginClient {
  const post = async (path: string, body: object, token?: string) => {
    const headers = { ...(token !== undefined && { authorization: `Bearer ${token}` }) };
    const asked = { method: 'POST', headers, json: body, ca: place.ca, mostBytes: MOST_BYTES } as const;
    const limit = AbortSignal.any([signal, AbortSignal.timeout(CALL_MS)]);
    const { status, text } = await askController(`${place.origin}/api/v3${path}`, asked, limit).catch(
      (error: Error) => {
        signal.throwIfAborted();
        throw new UnreachableError(`the controller ${place.origin} does not answer: ${line(error.message)}`);
      },
    );
    const answer = objectIn(text);
    if (status === 200 || status === 204) return answer;
    const { code = '', message = `it answered with ${status}` } = answer;
    throw new LoginRefused(status, String(code), `the controller refuses: ${line(String(message))}`);
  };
  const tokens = async (path: string, body: object): Promise<Tokens> => {
    const { accessToken, refreshToken } = await post(path, body);
    if (typeof accessToken !== 'string') throw new CommandError('the controller answered without a token');
    return { accessToken, ...(typeof refreshToken === 'string' && { refreshToken }) };
  };
  return {
    password: (given) => tokens('/user/login', given),
    redeem: (given) => tokens('/user/login', given),
    refresh: (refreshToken) => tokens('/user/refresh', { refreshToken }),
    async logout({ accessToken, refreshToken }) {
      await post('/user/logout', { ...(refreshToken !== undefined && { refreshToken }) }, accessToken);
    },
  };
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const found: unknown = JSON.parse(text);
    return typeof found === 'object' && found !== null ? { ...found } : {};
  } catch {
    return {};
  }
}
