import type { TokenPair, TokenVerifier, VerifiedBearer } from './tokens.ts';

/** Where a login in the browser ends: at the console, or at a listener of kubectl on the user's machine. */
export type BrowserTarget = { console: string } | { loopback: string; challenge: string };

/** The end of a login in the browser. */
export type BrowserOutcome = {
  to: BrowserTarget;
} & (
  | { claims: { sub: string }; tokens?: TokenPair; problem?: 'OPAQUE_TOKEN' | 'NO_GROUPS' }
  /** the code by which kubectl gets its tokens */
  | { brokered: string }
  /** the error of the provider: letters and `_` */
  | { refused: string }
);

/** The login in the browser, of both modes. */
export interface BrowserLogin {
  /** `cookie`: the value that the browser has to bring back. */
  begin(to: BrowserTarget, signal: AbortSignal): Promise<{ location: string; cookie: string }>;
  /** `query`: as the callback got it. Throws 401 for a login that this browser did not begin, or that took too long. */
  finish(query: URLSearchParams, cookie: string | undefined, signal: AbortSignal): Promise<BrowserOutcome>;
  /** The tokens for a code of a login that kubectl began. Throws 401. */
  redeem?(code: string, verifier: string, signal: AbortSignal): Promise<TokenPair>;
}

export interface ExternalProvider extends TokenVerifier {
  password(username: string, password: string, totp: string | undefined, signal: AbortSignal): Promise<TokenPair>;
  refresh(token: string, signal: AbortSignal): Promise<TokenPair>;
  logout(tokens: { accessToken: string; refreshToken?: string }): Promise<void>;
  profile(verified: VerifiedBearer, token: string, signal: AbortSignal): Promise<object>;
  /** why it cannot be asked now */
  readonly problem: string | undefined;
}
