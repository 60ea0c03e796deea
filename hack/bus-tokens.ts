import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { buildTool } from './tool.ts';

/** What nats-io/jwt says of a token, or of the token in a file of credentials. */
export interface TokenReading {
  /** why it cannot be read at all */
  error?: string;
  /** the claims as the library writes them */
  claims?: {
    name: string;
    sub: string;
    iss: string;
    iat: number;
    jti: string;
    exp?: number;
    nats: Record<string, unknown>;
  };
  /** what the library calls wrong */
  issues: string[];
  /** whether `issuer` signed it */
  isSigned: boolean;
  /** of the seed in credentials */
  publicKey?: string;
}

type Question = { token: string; issuer?: string } | { credentials: string; issuer?: string };

/** Reads tokens of the bus with the library of its servers (hack/tools/bus-tokens). */
export async function readTokens(questions: readonly Question[]): Promise<TokenReading[]> {
  const program = await buildTool('bus-tokens', '.');
  const running = promisify(execFile)(program, { maxBuffer: 64 * 1024 * 1024, timeout: 60_000 });
  running.child.stdin?.end(JSON.stringify(questions));
  return JSON.parse((await running).stdout);
}
