import type { IncomingMessage, ServerResponse } from 'node:http';

/** The OpenID provider below `/oidc`. */
export interface EmbeddedIssuer {
  /** Whether it serves the request. */
  handle(request: IncomingMessage, response: ServerResponse): boolean;
  complete(uid: string, accountId: string, signal: AbortSignal): Promise<{ redirectTo: string }>;
}
