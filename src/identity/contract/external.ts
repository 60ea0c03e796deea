import type { TokenPair, TokenVerifier, VerifiedBearer } from './tokens.ts';

/** Where a login in the browser ends: at the console, or at a listener of kubectl on the user's machine. */
export type BrowserTarget = { console: string } | { loopback: string; challenge: string };

/** The login in the browser, of both modes. */
export interface BrowserLogin {
  begin(to: BrowserTarget): Promise<{ location: string; cookie: string }>;
  finish(
    url: URL,
    cookie: string | undefined,
    signal: AbortSignal,
  ): Promise<{
    to: BrowserTarget;
    claims: { sub: string };
    tokens?: TokenPair;
    problem?: 'OPAQUE_TOKEN' | 'NO_GROUPS';
  }>;
}

export interface ExternalProvider extends TokenVerifier {
  password(username: string, password: string, totp: string | undefined, signal: AbortSignal): Promise<TokenPair>;
  refresh(token: string, signal: AbortSignal): Promise<TokenPair>;
  logout(tokens: { accessToken: string; refreshToken?: string }): Promise<void>;
  profile(verified: VerifiedBearer, token: string, signal: AbortSignal): Promise<object>;
  /** why it cannot be asked now */
  readonly problem: string | undefined;
}
