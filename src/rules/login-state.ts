/** What a replica says of logins in its Lease, for `kubectl skerry doctor`. Nothing in it is secret. */
export interface LoginState {
  mode: 'embedded' | 'external';
  publicUrl?: string;
  /** why nobody can log in, in words for people */
  off?: string;
  /** why the OpenID provider cannot be asked */
  problem?: string;
  /** RFC 3339: since when the present key signs tokens */
  keySince?: string;
  /** the first administrator has still the generated password */
  hasFirstPassword?: true;
}

export interface LoginProblem {
  detail: string;
  todo: string;
}

const DAY = 86_400_000;
const OLDEST_KEY = 365 * DAY;

type Check = (state: LoginState, now: number) => LoginProblem | false;

const isPlain = ({ publicUrl = '' }: LoginState) =>
  publicUrl.startsWith('http:') && !/^(127(\.\d+){3}|localhost|\[::1\])$/.test(URL.parse(publicUrl)?.hostname ?? '');

/** In the order in which they matter. */
const CHECKS: readonly Check[] = [
  (state) =>
    isPlain(state) && {
      detail: `${state.publicUrl} is no https:// URL`,
      todo: 'Serve TLS (tls.certificate.create of the chart), and name an https:// publicUrl: passwords and tokens can be read on the way.',
    },
  ({ problem }) =>
    problem !== undefined && {
      detail: `the OpenID provider cannot be asked: ${problem}`,
      todo: 'Look at the way from the pods to OIDC_ISSUER_URL; known tokens work meanwhile.',
    },
  ({ hasFirstPassword }) =>
    hasFirstPassword === true && {
      detail: 'the first administrator has still the generated password',
      todo: 'Log in with the password in Secret skerry-bootstrap-admin, and change it: the Secret is removed then.',
    },
  ({ keySince }, now) => {
    const age = now - Date.parse(keySince ?? '');
    return (
      age > OLDEST_KEY && {
        detail: `the key of tokens has signed for ${Math.floor(age / DAY)} days`,
        todo: 'Rotate it: POST /api/v3/auth/jwks/rotate.',
      }
    );
  },
];

/** What is wrong with logins; `now`: Unix ms. */
export const loginProblems = (state: LoginState, now: number): LoginProblem[] =>
  CHECKS.flatMap((check) => check(state, now) || []);

/** Beyond this the clock of a replica is wrong: a code of a second factor is valid for half a minute. */
const MOST_SKEW_MS = 5_000;

/** Seconds by which the clock of a replica is ahead of the API server's; undefined while they agree. */
export function clockSkew(renewTime: string | undefined, writtenAt: string | undefined): number | undefined {
  const ms = Date.parse(renewTime ?? '') - Date.parse(writtenAt ?? '');
  return Math.abs(ms) > MOST_SKEW_MS ? Math.round(ms / 1_000) : undefined;
}
